package teachers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// metadata are the addresses at which clouds give a machine its own credentials,
// to whoever asks from it: no teacher is there, and a recipe that names one, or a
// name that leads to one, would have a worker fetch its credentials and show them
// in an error. 169.254.0.0/16 has those of AWS, Azure, Google and of containers.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("fd00:ec2::/32"),       // AWS
	netip.MustParsePrefix("fd20:ce::254/128"),    // Google
	netip.MustParsePrefix("fe80::a9fe:a9fe/128"), // OpenStack
	netip.MustParsePrefix("168.63.129.16/32"),    // Azure
	netip.MustParsePrefix("192.0.0.192/32"),      // Oracle
	netip.MustParsePrefix("100.100.100.200/32"),  // Alibaba
	netip.MustParsePrefix("64:ff9b::a9fe:0/112"), // 169.254.0.0/16 through NAT64
	netip.MustParsePrefix("::ffff:0:a9fe:0/112"), // and translated
	netip.MustParsePrefix("2002:a9fe::/32"),      // and in 6to4
}

// errMetadata ends a connection to one of them before it begins.
var errMetadata = errors.New("it is an address of the cloud's own service for this machine, where no teacher is")

// RefuseMetadata is a [net.Dialer.ControlContext] that ends connections to the
// addresses at which clouds give a machine its own credentials, before they
// begin. It looks at the address that a connection is really made to, after
// names were looked up.
func RefuseMetadata(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	ip := at.Addr().Unmap().WithZone("")
	if slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return errMetadata
	}
	return nil
}
