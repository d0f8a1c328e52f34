// Package straightforward is a webhook receiver as a first version would be written, to compare the gateway with: the
// standard library's server, a verified signature, encoding/json, and one transaction a request through a pool. It
// stores the same two rows, has no log and no metrics, and finds every tenant in a map.
package straightforward

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/providers/nylas"
)

// Tenant is what a grant belongs to.
type Tenant struct {
	Job          uuid.UUID `json:"job"`
	Organization uuid.UUID `json:"organization"`
}

// Spec configures the server.
type Spec struct {
	DatabaseURL string            `json:"database_url"`
	Listen      string            `json:"listen"`
	Connections int32             `json:"connections"` // of the pool
	Secret      string            `json:"secret"`
	Tenants     map[string]Tenant `json:"tenants"` // by grant
}

// Serve receives until ctx ends.
func Serve(ctx context.Context, spec Spec) error {
	config, err := pgxpool.ParseConfig(spec.DatabaseURL)
	if err != nil {
		return err
	}
	config.MaxConns = spec.Connections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	l, err := net.Listen("tcp", spec.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &handler{spec: spec, pool: pool}, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close() // requests in progress no longer matter
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type handler struct {
	spec Spec
	pool *pgxpool.Pool
}

// notification holds the fields that are read from a body.
type notification struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		Object struct {
			Grant string `json:"grant_id"`
		} `json:"object"`
	} `json:"data"`
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<20))
	if err != nil {
		http.Error(w, "body", http.StatusRequestEntityTooLarge)
		return
	}
	proof, err := nylas.New().Prove(r.Header, arrived)
	if err != nil || !proof.Verify(h.spec.Secret, body) {
		http.Error(w, "signature", http.StatusUnauthorized)
		return
	}
	var n notification
	if err := json.Unmarshal(body, &n); err != nil {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	tenant, ok := h.spec.Tenants[n.Data.Object.Grant]
	if !ok {
		http.Error(w, "tenant", http.StatusNotFound)
		return
	}
	if err := h.keep(r, &n, tenant, body, arrived); err != nil {
		http.Error(w, "database", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}

const claimSQL = `
	INSERT INTO agent.idempotency_keys
	       (id, organization_id, scope, key, request_hash, status, lease_token, resource_type, resource_id,
	        claimed_at, lease_expires_at, retain_until)
	VALUES ($1, $2, 'webhook.nylas', $3, $4, 'completed', $5, 'webhook_delivery', $6,
	        now(), now() + interval '30 seconds', now() + interval '1 day')
	    ON CONFLICT (organization_id, scope, key) DO NOTHING`

const insertSQL = `
	INSERT INTO agent.webhook_deliveries
	       (id, organization_id, provider, job_id, delivery_key, event_type, request_hash, headers,
	        content_type, content_encoding, body, ordering_key, received_at)
	VALUES ($1, $2, 'nylas', $3, $4, $5, $6, $7, $8, '', $9, $10, $11)`

func (h *handler) keep(r *http.Request, n *notification, t Tenant, body []byte, arrived time.Time) error {
	sum := sha256.Sum256(body)
	hash, key := "r1:"+hex.EncodeToString(sum[:]), t.Job.String()+"/"+n.ID
	claim, delivery := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	headers, err := json.Marshal([][2]string{{"user-agent", r.UserAgent()}})
	if err != nil {
		return err
	}
	return pgx.BeginFunc(r.Context(), h.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(r.Context(), claimSQL, claim, t.Organization, key, hash, uuid.New(), delivery.String())
		if err != nil || tag.RowsAffected() == 0 { // a duplicate
			return err
		}
		_, err = tx.Exec(r.Context(), insertSQL, delivery, t.Organization, t.Job, key, n.Type, hash, string(headers),
			r.Header.Get("Content-Type"), body, n.Data.Object.Grant, arrived)
		return err
	})
}
