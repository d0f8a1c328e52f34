package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/idempotency/httpdoor"
)

// lease is short, so that abandoned keys are reclaimed while others still run.
const lease = 3 * time.Second

// cuttable is the application name of the sessions that are cut.
const cuttable = "soak"

// world is what one process works with.
type world struct {
	vendor  *pgxpool.Pool // reaches the outside system; its connections are not cut
	pool    *pgxpool.Pool // the plane's; its connections are cut
	keys    *idempotency.Service
	org     uuid.UUID
	began   time.Time
	wrapped http.Handler // its effect is the vendor's
	rows    http.Handler // its effect is rows

	calls, answers, replays, reclaims atomic.Int64
}

// effects is the ledger: a row for each effect, of the vendor and of rows. It has no constraint that would stop a
// second effect.
const effects = `CREATE TABLE effects (key text NOT NULL, id uuid NOT NULL DEFAULT gen_random_uuid()); CREATE INDEX ON effects (key)`

func newWorld(ctx context.Context, url string, org uuid.UUID, began time.Time) (*world, error) {
	w := &world{org: org, began: began}
	var err error
	if w.vendor, err = open(ctx, url, "vendor"); err != nil {
		return nil, err
	}
	if w.pool, err = open(ctx, url, cuttable); err != nil {
		return nil, err
	}
	w.keys, err = idempotency.NewService(w.pool, idempotency.Options{Observer: func(_ context.Context, e idempotency.Event) {
		if e.Op == idempotency.OpClaim && e.Reclaimed {
			w.reclaims.Add(1)
		}
	}})
	if err != nil {
		return nil, err
	}
	return w, w.mount()
}

func open(ctx context.Context, url, name string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 12
	config.ConnConfig.RuntimeParams["application_name"] = name
	return pgxpool.NewWithConfig(ctx, config)
}

func (w *world) close() {
	w.pool.Close()
	w.vendor.Close()
}

// mount puts two operations behind doors: one at the vendor, one of rows.
func (w *world) mount() error {
	config := httpdoor.Config{
		Keys: w.keys, Lease: lease, Required: true,
		Authorize: func(http.ResponseWriter, *http.Request) (httpdoor.Caller, bool) {
			return httpdoor.Caller{Organization: w.org, Principal: idempotency.Principal{Subject: "user"}}, true
		},
		Reconcile: func(rw http.ResponseWriter, r *http.Request, _ *idempotency.Claim) bool {
			id, found, err := w.find(r.Context(), r.URL.Query().Get("key"))
			if err != nil {
				http.Error(rw, "", http.StatusInternalServerError) // it is still unknown
				return true
			}
			if found {
				created(rw, id)
			}
			return found
		},
	}
	var err error
	if config.Scope, err = idempotency.NewScope("http.soak.vendor"); err != nil {
		return err
	}
	vendor, err := httpdoor.New(config)
	if err != nil {
		return err
	}
	w.wrapped = vendor.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		c, _ := httpdoor.ClaimFrom(r.Context())
		id, err := w.send(r.Context(), r.URL.Query().Get("key"), c)
		answer(rw, id, err)
	}))
	if config.Scope, err = idempotency.NewScope("http.soak.rows"); err != nil {
		return err
	}
	config.Reconcile = nil
	rows, err := httpdoor.New(config)
	if err != nil {
		return err
	}
	w.rows = rows.WrapTx(w.pool, func(rw http.ResponseWriter, r *http.Request, tx pgx.Tx) {
		id, err := insert(r.Context(), tx, r.URL.Query().Get("key"))
		answer(rw, id, err)
	})
	return nil
}

func created(rw http.ResponseWriter, id string) {
	rw.WriteHeader(http.StatusCreated)
	fmt.Fprint(rw, id)
}

func answer(rw http.ResponseWriter, id string, err error) {
	switch {
	case err == nil:
		created(rw, id)
	case errors.Is(err, errBusy):
		http.Error(rw, "", http.StatusServiceUnavailable)
	default:
		http.Error(rw, "", http.StatusInternalServerError)
	}
}

var (
	errBusy = errors.New("the vendor is busy, and has done nothing")
	errLost = errors.New("the vendor's answer was lost")
	errLate = errors.New("the claim's lease is over")
)

// send makes the vendor's effect. Now and then the vendor is busy, or its answer is lost. The vendor takes no keys, but
// serves one call of a key at a time, and none after the claim's lease: what is asked of it later sees what it did.
func (w *world) send(ctx context.Context, key string, c *idempotency.Claim) (id string, err error) {
	fate := rand.IntN(20)
	if fate < 2 {
		return "", errBusy
	}
	err = pgx.BeginFunc(ctx, w.vendor, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, key); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `INSERT INTO effects (key) SELECT $1 WHERE clock_timestamp() < $2 RETURNING id::text`, key, c.Deadline)
		if err != nil {
			return err
		}
		id, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		if errors.Is(err, pgx.ErrNoRows) {
			return errLate
		}
		return err
	})
	if err == nil && fate < 5 {
		return "", errLost
	}
	return id, err
}

// find asks the vendor what it did.
func (w *world) find(ctx context.Context, key string) (id string, found bool, err error) {
	err = pgx.BeginFunc(ctx, w.vendor, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, key); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT id::text FROM effects WHERE key = $1`, key).Scan(&id)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return "", false, nil
	}
	return id, err == nil, err
}

// insert makes an effect that is a row. Now and then it fails.
func insert(ctx context.Context, tx pgx.Tx, key string) (id string, err error) {
	err = tx.QueryRow(ctx, `INSERT INTO effects (key) VALUES ($1) RETURNING id::text`, key).Scan(&id)
	if err == nil && rand.IntN(20) == 0 {
		return "", errLost
	}
	return id, err
}
