package real

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Build compiles the program as releases are, with a clock that can be moved, into dir, and
// returns its path. source is the folder of the module, "" for the one that go finds.
func Build(ctx context.Context, dir, source string) (string, error) {
	if source == "" {
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}",
			"github.com/bulkhead-mail/bulkhead").Output()
		if err != nil {
			return "", fmt.Errorf("real: no source of the program: run this in its repository: %w", err)
		}
		source = strings.TrimSpace(string(out))
	}
	path := filepath.Join(dir, "bulkhead")
	cmd := exec.CommandContext(ctx, "go", "build", "-C", source, "-trimpath", "-ldflags", "-s -w", "-tags", "simclock",
		"-o", path, "./cmd/bulkhead")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("real: build: %w\n%s", err, out)
	}
	return path, nil
}

// A process is one running bulkhead.
type process struct {
	name    string
	program string
	dir     string
	ip      string // a loopback address of its own
	http    string // URL
	milter  string // paths of sockets
	dccifd  string
	pyzor   string // address
	key     string // public, of the node
	token   string // of its administrator
	edge    bool
	maildir int // mails put into its Maildirs
	cmd     *exec.Cmd
	exited  chan error
}

// loopback numbers the addresses of this process.
var loopback atomic.Uint32

// ownIP returns a loopback address that no other process uses.
func ownIP() string {
	i := loopback.Add(1)
	return fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8%64, os.Getpid()&255, 1+i%250)
}

// newProcess prepares a process in a folder of its own.
func newProcess(name, program, parent, resolver string, signed bool) (*process, error) {
	p := &process{name: name, program: program, dir: filepath.Join(parent, name), ip: ownIP()}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort(p.ip)
	if err != nil {
		return nil, err
	}
	p.http = fmt.Sprintf("http://%s:%d", p.ip, port)
	p.pyzor = fmt.Sprintf("%s:%d", p.ip, port+1)
	p.milter, p.dccifd = filepath.Join(p.dir, "milter"), filepath.Join(p.dir, "dccifd")
	config := fmt.Sprintf(`[node]
name = %q
log_level = "warn"
durability = "relaxed"
[listen]
http = %q
milter = "unix:%s"
dccifd = "unix:%s"
pyzor = %q
[milter]
resolver = %q
abuse_address = %q
abuse_ham_address = %q
`, name, strings.TrimPrefix(p.http, "http://"), p.milter, p.dccifd, p.pyzor, resolver, abuseAddress, abuseHamAddress)
	if !signed {
		config += fmt.Sprintf("verify = false\n[dccifd]\nverify = false\n[whitelist]\nauthentication_results = [%q]\n",
			resultsHost)
	} else {
		config += fmt.Sprintf("[dccifd]\nhost = %q\n", resultsHost)
	}
	return p, p.configure(config)
}

// configure appends to the configuration.
func (p *process) configure(text string) error {
	f, err := os.OpenFile(p.config(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func (p *process) config() string { return filepath.Join(p.dir, "bulkhead.toml") }
func (p *process) data() string   { return filepath.Join(p.dir, "data") }

// freePort returns a port of a loopback address that is free in TCP, and so is the next one in
// UDP: no other process has the address.
func freePort(ip string) (int, error) {
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return min(65_000, l.Addr().(*net.TCPAddr).Port), nil
}

// start runs the process until stop, and waits until it answers.
func (p *process) start(ctx context.Context) error {
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command(p.program, "serve", "--config", p.config(), "--data", p.data())
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, p.dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt of the terminal is for this program
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.exited = make(chan error, 1)
	go func() { p.exited <- p.cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, err := p.get(ctx, "/readyz"); err == nil {
			break
		}
		select {
		case err := <-p.exited:
			p.exited <- err
			return fmt.Errorf("real: %s ended: %w\n%s", p.name, err, p.log())
		case <-ctx.Done():
			return fmt.Errorf("real: %s is not ready: %w\n%s", p.name, ctx.Err(), p.log())
		case <-time.After(20 * time.Millisecond):
		}
	}
	if token, err := os.ReadFile(filepath.Join(p.data(), "admin.token")); err == nil {
		p.token = strings.TrimSpace(string(token))
	} else if !p.edge {
		return err
	}
	return nil
}

// stop ends the process in good order, or kills it.
func (p *process) stop() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
	p.cmd = nil
}

// log returns the end of the log.
func (p *process) log() string {
	text, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	return string(text[max(0, len(text)-4000):])
}

// run runs a command of the program to its end, and returns its output.
func (p *process) run(ctx context.Context, input []byte, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, p.program, args...), input)
}

// A refusal is an error of a node that has understood a report and does not take it.
type refusal struct{ error }

// output runs a command, and returns what it prints.
func output(cmd *exec.Cmd, input []byte) (string, error) {
	var out, complaint bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &complaint
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == dataError {
		return "", refusal{fmt.Errorf("%s: %s", filepath.Base(cmd.Path), bytes.TrimSpace(complaint.Bytes()))}
	}
	if err != nil {
		return "", fmt.Errorf("real: %s: %w: %s", filepath.Base(cmd.Path), err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}

// dataError is the exit code for a message that cannot be reported (EX_DATAERR).
const dataError = 65

// client waits for answers for at most a minute.
var client = http.Client{Timeout: time.Minute}

func (p *process) get(ctx context.Context, path string) ([]byte, error) {
	return p.request(ctx, http.MethodGet, path, "", "", nil)
}

// post sends a body as a program of the machine that has no account.
func (p *process) post(ctx context.Context, path, contentType string, body []byte) ([]byte, error) {
	return p.request(ctx, http.MethodPost, path, contentType, "", body)
}

// administer sends JSON as the administrator, and reads the answer into out, which may be nil.
func (p *process) administer(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, err := p.request(ctx, http.MethodPost, path, "application/json", p.token, body)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

func (p *process) request(ctx context.Context, method, path, contentType, token string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.http+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusUnprocessableEntity, resp.StatusCode == http.StatusNotFound,
		resp.StatusCode == http.StatusConflict:
		return nil, refusal{fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, answer)}
	case resp.StatusCode/100 != 2:
		return nil, fmt.Errorf("real: %s: %s %s: %s: %.300s", p.name, method, path, resp.Status, answer)
	}
	return answer, nil
}

// advance moves the clock.
func (p *process) advance(ctx context.Context, by time.Duration) error {
	_, err := p.post(ctx, "/v1/clock?advance="+by.String(), "message/rfc822", nil)
	return err
}
