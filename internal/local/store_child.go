//go:build !noembed

package local

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
	"github.com/versity/versitygw/s3err"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// childArgument is how our own binary is told to be the store. The store is a
// process of its own because the gateway changes the working directory of its
// process and allows one gateway in it.
const childArgument = "__stillhouse-store__"

// childConfig is the first line that the parent writes to the child's stdin.
// Keys go this way and not by arguments or environment, which other processes
// can read. The parent then keeps the pipe open for as long as it lives.
type childConfig struct {
	Root      string `json:"root"`    // objects: <root>/<bucket>/<key>
	SideCar   string `json:"sidecar"` // metadata, where root has no user xattrs
	Lock      string `json:"lock"`
	Bucket    string `json:"bucket"`
	Region    string `json:"region"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
	Port      int    `json:"port"` // preferred

	ForceSideCar bool `json:"force_sidecar,omitempty"` // for tests, on a file system that has xattrs
}

// childReport is the one line that the child writes to descriptor 3.
type childReport struct {
	Address string `json:"address,omitempty"`
	Error   string `json:"error,omitempty"`
}

const (
	reportDescriptor = 3
	// childLockWait is how long a child waits for the child of a killed
	// predecessor to notice and end.
	childLockWait = 5 * time.Second
	// childStopLimit bounds the end of requests in flight.
	childStopLimit = 3 * time.Second
)

// ChildMain is called first in main with os.Args[1:]. Where this process was
// started to be the store it runs it to its end and returns true and the exit
// code.
func ChildMain(args []string) (handled bool, code int) {
	if len(args) != 1 || args[0] != childArgument {
		return false, 0
	}
	// The parent decides when the store ends: on a Ctrl-C it still has answers
	// to bring here.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	syscall.Umask(0o077) // the gateway makes some of its files with wider modes
	report := os.NewFile(reportDescriptor, "report")
	if err := runChild(os.Stdin, report); err != nil {
		log.Printf("store: %v", err)
		_ = json.NewEncoder(report).Encode(childReport{Error: err.Error()})
		return true, 1
	}
	return true, 0
}

// runChild serves the store until the pipe from the parent closes.
func runChild(pipe io.Reader, report io.WriteCloser) error {
	in := bufio.NewReader(pipe)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	var cfg childConfig
	if err := json.Unmarshal(line, &cfg); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // ends when the parent does
		cancel()
		time.Sleep(childStopLimit)
		os.Exit(0)
	}()

	lock, err := home.LockFile(cfg.Lock, childLockWait)
	if err != nil {
		return fmt.Errorf("another store is running in this home: lock %s: %w", cfg.Lock, err)
	}
	defer lock.Close()
	store, err := openStore(ctx, cfg)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := serveStore(ctx, store, cfg, report)
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, errNotReady) || try == startTries {
			return err
		}
		cfg.Port = 0
	}
}

// errNotReady: the gateway ended before it had served anything.
var errNotReady = errors.New("not ready")

// serveStore runs the gateway and reports its address when it answers.
func serveStore(ctx context.Context, store *durable, cfg childConfig, report io.WriteCloser) error {
	port, err := reservePort(cfg.Port)
	if err != nil {
		return err
	}
	address := net.JoinHostPort(loopback, strconv.Itoa(port))
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce)
	health := "/health-" + hex.EncodeToString(nonce) // nobody else's server answers there
	ended := make(chan error, 1)
	go func() {
		ended <- embedgw.RunVersityGW(ctx, store, &embedgw.Config{
			RootUserAccess:    cfg.AccessKey,
			RootUserSecret:    cfg.SecretKey,
			Region:            cfg.Region,
			Ports:             []string{address},
			MaxConnections:    4096,
			MaxRequests:       2048,
			MultipartMaxParts: 10000,
			KeepAlive:         true,
			Quiet:             true,
			HealthPath:        health,
		})
	}()
	if err := waitHealthy(ctx, "http://"+address+health, ended); err != nil {
		return err
	}
	if err := json.NewEncoder(report).Encode(childReport{Address: address}); err != nil {
		return fmt.Errorf("report to the parent: %w", err)
	}
	if err := report.Close(); err != nil {
		return fmt.Errorf("report to the parent: %w", err)
	}
	return <-ended
}

func waitHealthy(ctx context.Context, url string, ended <-chan error) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := client.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("run the gateway: %w: %w", errNotReady, err)
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// openStore opens the files and makes the bucket where it is missing.
func openStore(ctx context.Context, cfg childConfig) (*durable, error) {
	if err := os.MkdirAll(cfg.Root, 0o700); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	opts := posix.PosixOpts{CopyObjectThreshold: 5 << 30} // the zero value refuses every copy
	opts.SetNewDirPerm(0o700)
	opts.SetNewFilePerm(0o600)
	var metadata meta.MetadataStorer = meta.XattrMeta{}
	if err := (meta.XattrMeta{}).Test(cfg.Root); err != nil || cfg.ForceSideCar {
		if err := os.MkdirAll(cfg.SideCar, 0o700); err != nil {
			return nil, fmt.Errorf("open the store's metadata: %w", err)
		}
		if metadata, err = meta.NewSideCar(cfg.SideCar); err != nil {
			return nil, fmt.Errorf("open the store's metadata: %w", err)
		}
		opts.SideCarDir = cfg.SideCar
	}
	files, err := posix.New(cfg.Root, metadata, opts)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	store := &durable{Posix: files, root: cfg.Root, sidecar: opts.SideCarDir}
	if err := makeBucket(ctx, store, cfg); err != nil {
		return nil, fmt.Errorf("make the bucket %s: %w", cfg.Bucket, err)
	}
	return store, nil
}

// makeBucket is what the gateway does for CreateBucket, without a request. It
// also completes a bucket whose making was cut off.
func makeBucket(ctx context.Context, store *durable, cfg childConfig) error {
	acl, err := json.Marshal(auth.ACL{
		Owner: cfg.AccessKey,
		Grantees: []auth.Grantee{{
			Permission: auth.PermissionFullControl,
			Access:     cfg.AccessKey,
			Type:       types.TypeCanonicalUser,
		}},
	})
	if err != nil {
		return err
	}
	ctx = context.WithValue(ctx, "bucket-owner", auth.Account{Access: cfg.AccessKey}) //nolint:staticcheck // the gateway's own key
	err = store.CreateBucket(ctx, &s3.CreateBucketInput{
		Bucket:                    &cfg.Bucket,
		ObjectOwnership:           types.ObjectOwnershipBucketOwnerEnforced,
		CreateBucketConfiguration: &types.CreateBucketConfiguration{},
	}, acl)
	var refused s3err.S3Error
	if errors.As(err, &refused) {
		return nil
	}
	return err
}
