// The check of the dashboards against Grafana's own schema, apart from the gateway's go.mod: it is built
// for nothing else. go -C tools/dashboards test -count=1 .
module dashboards

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
