package drops

import (
	"testing"

	"webhook-gateway/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
