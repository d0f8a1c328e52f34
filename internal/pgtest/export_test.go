package pgtest

// Scratch is the fastest folder for the data of a server.
func Scratch() string { return baseFor(Options{}) }

// NewServerIn is NewServer in the given folder, with its own template.
func NewServerIn(t T, base string) *Server { return newServer(t, base, Options{}) }
