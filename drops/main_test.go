package drops

import (
	"testing"

	"webhook-gateway/internal/devdb"
)

func TestMain(m *testing.M) { devdb.Main(m) }
