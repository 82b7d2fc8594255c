package sandbox

// environment is all that programs find in theirs.
var environment = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/go/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "TZ=UTC",
	"PYTHONHASHSEED=0", "GOTRACEBACK=none", "GOMAXPROCS=2",
}
