package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bulkhead-mail/bulkhead/client"
	"github.com/bulkhead-mail/bulkhead/dcc"
	dccsum "github.com/bulkhead-mail/bulkhead/digest/dcc"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/command"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/waiting"
)

// testRoot names a folder that stands for / in the search for an installed node.
const testRoot = "BULKHEAD_TEST_ROOT"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bulkhead": func() {
		redirect(os.Getenv(testRoot))
		main()
	}})
}

// redirect makes the search for an installed node begin at a folder.
func redirect(root string) {
	command.InstalledConfig = filepath.Join(root, "etc/bulkhead/bulkhead.toml")
	command.InstalledData = filepath.Join(root, "var/lib/bulkhead")
	command.InstalledRun = filepath.Join(root, "run/bulkhead")
	waiting.Shared = filepath.Join(root, "var/spool/bulkhead")
}

// TestScripts runs the terminal sessions of testdata. Each has a free address
// in $ADDR. "ready" waits until the node there is.
func TestScripts(t *testing.T) {
	var scripts atomic.Int64
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			address, err := freeAddress(int(scripts.Add(1)))
			if err != nil {
				return err
			}
			env.Setenv("ADDR", address)
			env.Setenv("URL", "http://"+address)
			env.Setenv("NO_COLOR", "1")
			plugins, err := filepath.Abs("../../internal/plugins")
			if err != nil {
				return err
			}
			env.Setenv("PLUGINS", plugins)
			env.Setenv(testRoot, filepath.Join(env.WorkDir, "root"))
			return errors.Join(writeFilters(env.WorkDir), writeCertificate(env.WorkDir, "one"),
				writeCertificate(env.WorkDir, "two"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"ready": ready, "wantcode": wantCode, "get": get,
			"expand": expand, "signal": sendSignal, "reloaded": reloaded, "logged": logged, "field": field, "found": found,
			"certificate": wantCertificate, "eventually": eventually, "dcc": askDCC, "refused": refusedDCC},
	})
}

// freeAddress returns an address that stays unused while a script stops and starts its nodes. On
// Linux each script has a loopback address of its own, on which no other program gets a port.
func freeAddress(script int) (string, error) {
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		pid := os.Getpid()
		host = fmt.Sprintf("127.%d.%d.%d", 1+(pid>>8)%250, pid%256, 1+script%250)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ready [URL] waits until a node answers /readyz, or stops doing so with "!".
func ready(ts *testscript.TestScript, neg bool, _ []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(ts.Getenv("URL") + "/readyz")
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil && resp.StatusCode == http.StatusOK) != neg {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("the node is not ready: %v", err)
		case <-tick.C:
		}
	}
}

// wantCode is "wantcode CODE COMMAND...": it runs a command that must exit with the code.
func wantCode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: wantcode CODE COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%q exits with %v, want %s", args[1:], got, args[0])
	}
}

// sendSignal is "signal TERM|HUP": it sends a signal to every background program.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	sig, ok := map[string]os.Signal{"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}[args[0]]
	if !ok {
		ts.Fatalf("unknown signal %q", args[0])
	}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(sig))
	}
}

// get PATH prints the node's answer.
func get(ts *testscript.TestScript, _ bool, args []string) {
	resp, err := http.Get(ts.Getenv("URL") + args[0])
	ts.Check(err)
	defer resp.Body.Close()
	var b strings.Builder
	_, err = fmt.Fprintf(&b, "%s\n", resp.Status)
	ts.Check(err)
	_, err = io.Copy(&b, io.LimitReader(resp.Body, 1<<20))
	ts.Check(err)
	ts.Logf("%s", b.String())
	ts.Check(os.WriteFile(ts.MkAbs("got"), []byte(b.String()), 0o600))
}

// field WORD VARIABLE sets an environment variable to the text after the word on a line of the last
// output.
func field(ts *testscript.TestScript, _ bool, args []string) {
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == args[0] {
			ts.Setenv(args[1], words[1])
			return
		}
	}
	ts.Fatalf("no line of the output begins with %q", args[0])
}

// found VARIABLE PATTERN sets an environment variable to the text that the group of a pattern
// matches in the last output.
func found(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: found VARIABLE PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	match := pattern.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(match) != 2 {
		ts.Fatalf("the output has nothing like %q", args[1])
	}
	ts.Setenv(args[0], match[1])
}

// expand FILE replaces $ADDR, $WORK and $SECRET in a file.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.NewReplacer("$ADDR", ts.Getenv("ADDR"), "$WORK", ts.Getenv("WORK"), "$SECRET",
		ts.Getenv("SECRET")).Replace(ts.ReadFile(args[0]))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// reloaded waits until the node has applied the whitelist of its new configuration.
func reloaded(ts *testscript.TestScript, _ bool, _ []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	c := &client.Client{Server: ts.Getenv("URL")}
	for {
		v, err := c.CheckMessage(ctx, []byte(ts.ReadFile("letter.eml")), client.MessageOptions{})
		if err == nil && v.Whitelisted != "" {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("the configuration is not reloaded: %v", err)
		case <-tick.C:
		}
	}
}

// logged PATTERN waits until a line of the file "log" matches.
func logged(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: logged PATTERN")
	}
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	if !await.Within(await.Patience, func() bool { return pattern.MatchString(ts.ReadFile("log")) }) {
		ts.Fatalf("the log has no line that matches %q:\n%s", args[0], ts.ReadFile("log"))
	}
}

// eventually PATTERN COMMAND... runs a command until its output matches.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	var err error
	if !await.Within(await.Patience, func() bool {
		err = ts.Exec(args[1], args[2:]...)
		return err == nil && pattern.MatchString(ts.ReadFile("stdout"))
	}) {
		ts.Fatalf("%q prints, with %v:\n%s", args[1:], err, ts.ReadFile("stdout"))
	}
}

// writeFilters writes filter files, whole and damaged ones.
func writeFilters(dir string) error {
	secret := filter.Secret{1}
	var counts, bits bytes.Buffer
	for _, kind := range []filter.Kind{filter.Cells, filter.Bitmap} {
		g := filter.Geometry{Kind: kind, K: 8, Lines: 1024, KeyID: secret.ID()}
		if kind == filter.Cells {
			c, err := filter.NewCounting(g)
			if err != nil {
				return err
			}
			for i := range 1000 {
				c.Add(secret.Key([]byte{byte(i), byte(i >> 8)}), 3)
			}
			if err := c.Encode(&counts); err != nil {
				return err
			}
			continue
		}
		b, err := filter.NewBits(g)
		if err != nil {
			return err
		}
		b.Set(secret.Key([]byte("one")))
		if err := b.Encode(&bits); err != nil {
			return err
		}
	}
	for name, data := range map[string][]byte{
		"counts.bkh": counts.Bytes(), "bits.bkh": bits.Bytes(),
		"cut.bkh": bits.Bytes()[:bits.Len()-1], "longer.bkh": append(bytes.Clone(bits.Bytes()), 0),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// writeCertificate makes NAME.pem and NAME.key for a server called NAME.
func writeCertificate(dir, name string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	cert, err1 := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	private, err2 := x509.MarshalPKCS8PrivateKey(key)
	return errors.Join(err1, err2,
		os.WriteFile(filepath.Join(dir, name+".pem"),
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600),
		os.WriteFile(filepath.Join(dir, name+".key"),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// wantCertificate is "certificate NAME": it waits until the node shows the certificate of
// NAME.
func wantCertificate(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // only the name of the certificate is checked
	shown := ""
	for {
		conn, err := dialer.DialContext(ctx, "tcp", ts.Getenv("ADDR"))
		if err == nil {
			shown = conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
			conn.Close()
		}
		if err == nil && shown == args[0] {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("the node shows the certificate of %q, want that of %q: %v", shown, args[0], err)
		case <-tick.C:
		}
	}
}

// askDCC is "dcc ID PASSWORD": it asks the node as a client of DCC, and accepts only an answer
// that is signed with the password.
func askDCC(ts *testscript.TestScript, neg bool, args []string) {
	patience := 30 * time.Second
	if neg {
		patience = time.Second // a refused client gets no answer
	}
	if err := queryDCC(ts, patience, args); (err != nil) != neg {
		ts.Fatalf("DCC client %s: %v", args[0], err)
	}
}

// refusedDCC is "refused ID PASSWORD": it waits until the node no longer knows a client of
// DCC.
func refusedDCC(ts *testscript.TestScript, _ bool, args []string) {
	for end := time.Now().Add(30 * time.Second); queryDCC(ts, time.Second, args) == nil; {
		if time.Now().After(end) {
			ts.Fatalf("DCC client %s is still served", args[0])
		}
	}
}

func queryDCC(ts *testscript.TestScript, patience time.Duration, args []string) error {
	if len(args) != 2 {
		ts.Fatalf("usage: dcc ID PASSWORD")
	}
	id, err := strconv.ParseUint(args[0], 10, 32)
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := dcc.Dial(ctx, ts.Getenv("ADDR"), &dcc.Options{ID: uint32(id), Password: args[1]})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Query(ctx, []dcc.Checksum{{Type: dccsum.TypeBody, Sum: [16]byte{1}}})
	return err
}
