package devdb

// Scratch is the fastest folder there is for the data of a server in a test.
func Scratch() string { return workshopFor(Options{}) }
