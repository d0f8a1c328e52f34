package httpdoor_test

import (
	"testing"

	"webhook-gateway/internal/devdb"
)

func TestMain(m *testing.M) { devdb.Main(m) }
