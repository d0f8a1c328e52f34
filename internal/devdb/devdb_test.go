package devdb_test

import (
	"testing"

	"webhook-gateway/internal/devdb"
)

func TestMain(m *testing.M) { devdb.Main(m) }

func TestEachTestHasAMigratedDatabaseOfItsOwn(t *testing.T) {
	for range 3 {
		t.Run("one of several", func(t *testing.T) {
			t.Parallel()
			pool := devdb.Pool(t)
			var name string
			if err := pool.QueryRow(t.Context(), `INSERT INTO agent.provider_sources (id, provider, name)
				VALUES (gen_random_uuid(), 'slack', 'main') RETURNING current_database()`).Scan(&name); err != nil {
				t.Fatal(err)
			}
			t.Log(name)
		})
	}
}
