package report

// The names of the rows.
const (
	Fresh           = "fresh"
	Pgbench         = "pgbench"
	Pipelined       = "pgbench pipelined"
	Straightforward = "straightforward"
	HTTPAlone       = "http alone"
	SettlingAlone   = "settling alone"
	Duplicates      = "duplicates"
	Steady          = "steady 1000/s"
	Half            = "half of the maximum"
	Mail            = "mail"
	MailByCopy      = "mail by COPY"
	OneGateway      = "one gateway"
	TwoGateways     = "two gateways"
	Large           = "1 MB"
	Gzip            = "gzip"
	Deltas          = "100 deltas"
	Overload        = "overload"
	Afterwards      = "right after it"
	Beside          = "the other gateway"
)
