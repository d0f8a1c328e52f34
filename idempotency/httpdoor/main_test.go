package httpdoor_test

import (
	"testing"

	"webhook-gateway/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
