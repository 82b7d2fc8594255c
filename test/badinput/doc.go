// Package badinput proves on the real program that what is wrong is refused in
// words that help: bad endpoints, sources, stores, homes and gates each end
// with the right exit code, a message that names the place and the next step,
// no stack trace and no key, soon, and without harm to what was published
// before. Bad recipes and command lines that need no services are held to the
// same in internal/cli.
//
//	make integration
//	CGO_ENABLED=0 go test -tags integration -v ./test/badinput
package badinput
