package inbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A database that refuses every delivery is at fault itself: none of them is malformed.
func TestOurFaultNotMalformed(t *testing.T) {
	t.Parallel()
	const fails = `CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken' USING ERRCODE = '22000'; END $$;`
	for _, tt := range []struct{ name, breaks, mends string }{
		{"a trigger that fails", fails + `CREATE TRIGGER fails BEFORE INSERT ON agent.webhook_deliveries FOR EACH ROW EXECUTE FUNCTION fails()`,
			`DROP TRIGGER fails ON agent.webhook_deliveries`},
		{"one that fails at COMMIT", fails + `CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON agent.idempotency_keys DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION fails()`,
			`DROP TRIGGER fails ON agent.idempotency_keys`},
		{"a column of a newer release", `ALTER TABLE agent.webhook_deliveries ADD COLUMN region text NOT NULL`,
			`ALTER TABLE agent.webhook_deliveries DROP COLUMN region`},
		{"a constraint of a newer release", `ALTER TABLE agent.idempotency_keys ADD CONSTRAINT none CHECK (false) NOT VALID`,
			`ALTER TABLE agent.idempotency_keys DROP CONSTRAINT none`},
		{"a limit", `CREATE FUNCTION limited() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'limit' USING ERRCODE = '54000'; END $$;
			CREATE TRIGGER limited BEFORE INSERT ON agent.webhook_deliveries FOR EACH ROW EXECUTE FUNCTION limited()`,
			`DROP TRIGGER limited ON agent.webhook_deliveries`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, defaults)
			w.exec(tt.breaks)
			one, two := w.request(w.item("1", "a"), w.item("2", "a")), w.request(w.item("3", "a"))
			one.Deadline = time.Now().Add(time.Second)
			two.Deadline = one.Deadline
			w.wantEndings(w.settle(one, two), failed, failed, failed)
			w.wantRows(0, 0, 0)
			if n := w.faults(); n == 0 {
				t.Error("the fault is not counted")
			}
			w.exec(tt.mends)
			w.wantEndings(w.settle(w.request(w.item("1", "a"))), accepted) // the vendor's repeat
		})
	}
}

// A session with another encoding refuses good text, and takes plain text.
func TestEncodingNotMalformed(t *testing.T) {
	t.Parallel()
	for encoding, id := range map[string]string{"EUC_JP": "漢x", "WIN1252": "Á"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, defaults, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["client_encoding"] = encoding })
			w.wantEndings(w.settle(w.request(w.item("plain", "a"))), accepted)
			work := w.request(w.item(id, "a"))
			work.Deadline = time.Now().Add(time.Second)
			w.wantEndings(w.settle(work), failed)
			w.wantRows(1, 1, 0)
		})
	}
}

// What the full form updates, and a batch does not, may be at fault too.
func TestAFaultOfATakeOverIsOurs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	err := pgx.BeginFunc(context.Background(), w.pool, func(tx pgx.Tx) error {
		w.claim(tx, "1", "processing", "-1 s", "1 day")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.exec(`CREATE FUNCTION public.fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken' USING ERRCODE = '22000'; END $$;
		CREATE TRIGGER fails BEFORE UPDATE ON agent.idempotency_keys FOR EACH ROW EXECUTE FUNCTION public.fails()`)
	work := w.request(w.item("1", "a"))
	work.Deadline = time.Now().Add(time.Second)
	w.wantEndings(w.settle(work), failed)
	if n := w.faults(); n == 0 {
		t.Error("the fault is not counted")
	}
	if n := w.count(`SELECT count(*) FROM agent.webhook_drops`); n != 0 {
		t.Errorf("%d drops", n)
	}
	w.exec(`DROP TRIGGER fails ON agent.idempotency_keys`)
	w.wantEndings(w.settle(w.request(w.item("1", "a"))), accepted)
}

func TestMalformedNotOurFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.poison()
	item := w.item("1", "a")
	item.Type = "poison"
	w.wantEndings(w.settle(w.request(item)), malformed)
	if n := w.faults(); n != 0 {
		t.Errorf("%v faults of ours are counted", n)
	}
	w.wantRows(0, 0, 1)
}

func (w *world) faults() float64 {
	w.t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "gateway_settle_faults_total" {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	w.t.Fatal("no such metric")
	return 0
}
