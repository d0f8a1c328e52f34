package inbox_test

import "testing"

func TestLZ4(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	const of = ` FROM pg_attribute WHERE attrelid::regclass::text LIKE 'agent.webhook_%' AND attname = 'body'
		AND (attrelid IN ('agent.webhook_deliveries'::regclass, 'agent.webhook_drops'::regclass)
		     OR attrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'agent.webhook_deliveries'::regclass))`
	want := w.count(`SELECT CASE WHEN 'lz4' = ANY (SELECT unnest(enumvals) FROM pg_settings WHERE name = 'default_toast_compression')
		THEN (SELECT count(*)` + of + `) ELSE 0 END`)
	if got := w.count(`SELECT count(*)` + of + ` AND attcompression = 'l'`); got != want {
		t.Errorf("%d of %d tables compress bodies with lz4", got, want)
	}
}
