package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the scripts run the command line as a program, without the
// embedded services.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"stillhouse": func() { os.Exit(Main(os.Args[1:], nil, "test")) },
	})
}
