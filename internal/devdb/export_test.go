package devdb

// Scratch is the fastest folder there is for the data of a server in a test.
func Scratch() string { return workshopFor(Options{}) }

// NewServerIn is NewServer whose data and template lie in a folder of the test's own.
func NewServerIn(t T, above string) *Server { return newServerIn(t, above, Options{}) }
