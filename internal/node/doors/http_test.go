package doors

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/api"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/lists"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// certify writes a certificate with a serial number, and its key, to the files of a configuration.
func certify(t *testing.T, cfg *config.Config, serial int64) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(path, kind string, b []byte) error {
		return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600)
	}
	err = errors.Join(write(cfg.HTTP.TLSCert, "CERTIFICATE", der), write(cfg.HTTP.TLSKey, "PRIVATE KEY", key))
	if err != nil {
		t.Fatal(err)
	}
}

// served opens and serves the doors of a configuration until the test ends, and returns the address of the HTTP door.
func served(t *testing.T, o Options) (*Set, string) {
	t.Helper()
	s := new(Set)
	if err := s.Open(t.Context(), o, false); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	for _, d := range s.All() {
		serving.Go(func() {
			if err := d.Serve(ctx); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		serving.Wait()
	})
	return s, s.All()[0].Address
}

// TestHTTPS checks that the HTTP door presents its certificate, and the new one after a reload, and that a connection
// without a place is closed without an answer that its client could not read.
func TestHTTPS(t *testing.T) {
	cfg := listening(ownAddress(t), "http")
	folder := t.TempDir()
	cfg.HTTP.TLSCert, cfg.HTTP.TLSKey = filepath.Join(folder, "cert"), filepath.Join(folder, "key")
	certify(t, cfg, 1)
	cfg.Limits.Connections = 1
	o, _ := rig(t, cfg)
	s, address := served(t, o)
	address, ok := strings.CutPrefix(address, "https://")
	if !ok {
		t.Errorf("the address is %s", address)
	}
	first := dialTLS(t, address)
	if n := first.ConnectionState().PeerCertificates[0].SerialNumber; n.Int64() != 1 {
		t.Errorf("the certificate has the number %v", n)
	}
	other, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, _ := io.ReadAll(other); len(got) > 0 {
		t.Errorf("a connection without a place gets %q", got)
	}
	first.Close()
	certify(t, cfg, 2)
	takeOver, err := s.Prepare(cfg, func(string) *lists.Handle { return nil })
	if err == nil {
		err = takeOver()
	}
	if err != nil {
		t.Fatal(err)
	}
	var number int64
	await.True(t, "the place of the first connection", func() bool {
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			number = c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
			c.Close()
		}
		return err == nil
	})
	if number != 2 {
		t.Errorf("after a reload the certificate has the number %d", number)
	}
}

func dialTLS(t *testing.T, address string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestHTTPAccess checks who may ask at the HTTP door, before and after a reload, and that programs on the node's socket
// have the rights of their user.
func TestHTTPAccess(t *testing.T) {
	cfg := listening(ownAddress(t), "http")
	cfg.HTTP.TrustedProxies = []string{"127.0.0.1"}
	o, _ := rig(t, cfg)
	o.Socket = filepath.Join(t.TempDir(), "socket")
	s, address := served(t, o)
	get := func(network, address, path string, headers ...string) (int, string) {
		t.Helper()
		c, err := net.Dial(network, strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, strings.Join(headers, ""))
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	const proxied = "X-Forwarded-For: 192.0.2.9\r\n"
	if code, body := get("tcp", address, "/v1/lists"); code != 200 {
		t.Errorf("a client of this machine: %d %s", code, body)
	}
	if code, body := get("tcp", address, "/v1/lists", proxied); code != 401 {
		t.Errorf("a client behind a proxy: %d %s", code, body)
	}
	// The tests run as the user of the node, who administers it.
	if code, body := get("unix", o.Socket, "/v1/whoami"); code != 200 || !strings.Contains(body, `"account":"root"`) ||
		!strings.Contains(body, `"admin":true`) && o.API.Users != nil {
		t.Errorf("a program on the socket: %d %s", code, body)
	}
	next := *cfg
	next.HTTP.AnonymousCheck = "all"
	takeOver, err := s.Prepare(&next, func(string) *lists.Handle { return nil })
	if err == nil {
		err = takeOver()
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, body := get("tcp", address, "/v1/lists", proxied); code != 200 {
		t.Errorf("a client behind a proxy after a reload: %d %s", code, body)
	}
	if code, _ := get("tcp", address, "/metrics"); code != 200 {
		t.Errorf("the metrics: %d", code)
	}
}

// TestAccessOf checks the rights and limits that HTTP clients have from the configuration.
func TestAccessOf(t *testing.T) {
	cfg := config.Default()
	cfg.HTTP.AnonymousCheck, cfg.HTTP.AnonymousReport, cfg.HTTP.MaxBody = "all", "none", 5
	cfg.HTTP.TrustedProxies = []string{"192.0.2.0/24"}
	got, err := accessOf(cfg)
	if err != nil || got.AnonymousCheck != api.Everyone || got.AnonymousReport != api.Nobody || got.MaxBody != 5 ||
		len(got.TrustedProxies) != 1 || got.Rate.Burst != cfg.Limits.Burst {
		t.Errorf("%+v, %v", got, err)
	}
	cfg.HTTP.TrustedProxies = nil
	if got, err = accessOf(cfg); err != nil || got.TrustedProxies != nil {
		t.Errorf("without proxies: %v, %v", got.TrustedProxies, err)
	}
}

// TestServeHTTP checks how the HTTP door ends: with its context, once the requests under way have ended, or with its
// listener.
func TestServeHTTP(t *testing.T) {
	front := new(http.Server)
	if err := serveHTTP(t.Context(), front, time.Minute, func() error { return io.ErrUnexpectedEOF }); !errors.Is(err,
		io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "listen.http") {
		t.Errorf("a listener that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for end, want := range map[error]bool{http.ErrServerClosed: true, io.ErrUnexpectedEOF: false} {
		closed := make(chan struct{})
		front := new(http.Server)
		front.RegisterOnShutdown(func() { close(closed) })
		err := serveHTTP(ctx, front, time.Minute, func() error {
			<-closed
			return end
		})
		if (err == nil) != want {
			t.Errorf("a server that ends with %v: %v", end, err)
		}
	}
	// A request that does not end.
	begun, end := make(chan struct{}), make(chan struct{})
	front = &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(begun)
		<-end
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	ctx, cancel = context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if err := serveHTTP(ctx, front, time.Millisecond, func() error { return front.Serve(l) }); err != nil {
		t.Errorf("a request that does not end: %v", err)
	}
	if _, err := io.ReadAll(c); err != nil { // it was closed
		t.Errorf("the connection of that request: %v", err)
	}
	close(end)

	cfg := config.Default()
	cfg.HTTP.ReadTimeout, cfg.HTTP.IdleTimeout = config.Duration(3*time.Second), config.Duration(5*time.Second)
	front = set(t, cfg).httpServer(cfg, http.NotFoundHandler())
	if front.ReadHeaderTimeout != 3*time.Second || front.ReadTimeout != 3*time.Second ||
		front.WriteTimeout != 6*time.Second || front.IdleTimeout != 5*time.Second {
		t.Errorf("the times of the server are %+v", front)
	}
	cfg.HTTP.ReadTimeout = config.Duration(time.Minute)
	if got := set(t, cfg).httpServer(cfg, nil).ReadHeaderTimeout; got != headerTimeout {
		t.Errorf("%v for a header", got)
	}
}

// TestListenLocal checks that the node runs without the socket for programs of its machine.
func TestListenLocal(t *testing.T) {
	s := set(t, config.Default())
	if l := s.listenLocal(t.Context()); l != nil {
		t.Error("a socket without a path is open")
	}
	log := new(logtest.Log)
	s.opts.Log = log.Logger()
	s.opts.Socket = filepath.Join(t.TempDir(), "missing", "socket")
	if l := s.listenLocal(t.Context()); l != nil || !strings.Contains(log.String(), "cannot be opened") {
		t.Errorf("a socket in a missing folder: %v, and the log has %q", l, log)
	}
}

// TestBoth checks that the end of one of two servers ends the other, and that both errors are returned.
func TestBoth(t *testing.T) {
	waits := func(ctx context.Context) error {
		<-ctx.Done()
		return io.EOF
	}
	fails := func(context.Context) error { return io.ErrUnexpectedEOF }
	for i, pair := range [][2]func(context.Context) error{{waits, fails}, {fails, waits}} {
		if err := both(t.Context(), pair[0], pair[1]); !errors.Is(err, io.EOF) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("case %d: %v", i, err)
		}
	}
}
