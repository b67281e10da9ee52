package gate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A node is a running server with its doors at a loopback address of its own.
type node struct {
	cmd    *exec.Cmd
	ip     string
	token  string // of its administrator
	exited chan error
}

// Ports of the doors. Each node has an address of its own, so the ports are free.
const (
	httpPort = 20420 + iota
	razorPort
	pyzorPort
	dccPort
	fuzzyPort
	milterPort
	policyPort
)

// addresses numbers the loopback addresses of this process.
var addresses atomic.Uint32

// start runs a program in a folder of its own and waits until it answers, over TLS if there is a certificate.
// The configuration has keys of version 0.1.0 and, where the program has it, the key that keeps the milter from
// asking resolvers.
func start(ctx context.Context, program, dir, cert, key string) (*node, error) {
	data := filepath.Join(dir, "data")
	n, err := launch(ctx, dir, cert != "", func(n *node) (*exec.Cmd, error) {
		var config strings.Builder
		config.WriteString("[node]\nname = \"gate\"\nlog_level = \"warn\"\n[listen]\n")
		for name, port := range map[string]int{
			"http": httpPort, "razor2": razorPort, "pyzor": pyzorPort, "dcc": dccPort, "fuzzy": fuzzyPort, "milter": milterPort,
			"policy": policyPort,
		} {
			fmt.Fprintf(&config, "%s = %q\n", name, n.at(port))
		}
		fmt.Fprintf(&config, "[http]\ntls_cert = %q\ntls_key = %q\n", cert, key)
		keys, err := exec.CommandContext(ctx, program, "config", "reference").Output()
		if err != nil {
			return nil, fmt.Errorf("gate: %s config reference: %w", program, err)
		}
		if strings.Contains(string(keys), "\nverify = true\n") {
			config.WriteString("[milter]\nverify = false\n")
		}
		file := filepath.Join(dir, "bulkhead.toml")
		if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
			return nil, err
		}
		return exec.Command(program, "serve", "--config", file, "--data", data), nil
	})
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		n.stop()
		return nil, fmt.Errorf("gate: %w", err)
	}
	n.token = strings.TrimSpace(string(token))
	return n, nil
}

// launch runs a server at an address of its own in a new folder, and waits until it answers.
func launch(ctx context.Context, dir string, tls bool, command func(*node) (*exec.Cmd, error)) (*node, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	pid := os.Getpid()
	n := &node{
		ip:     fmt.Sprintf("127.%d.%d.%d", 128+pid>>8&63, pid&255, 1+addresses.Add(1)%250),
		exited: make(chan error, 1),
	}
	cmd, err := command(n)
	if err != nil {
		return nil, err
	}
	if cmd.Path, err = filepath.Abs(cmd.Path); err != nil { // the program runs in dir
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	n.cmd = cmd
	n.cmd.Stdout, n.cmd.Stderr, n.cmd.Dir = log, log, dir
	if err := n.cmd.Start(); err != nil {
		return nil, fmt.Errorf("gate: %w", err)
	}
	go func() { n.exited <- n.cmd.Wait() }()
	if err := n.ready(ctx, tls); err != nil {
		n.stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("gate: %s: %w\n%s", cmd.Path, err, text)
	}
	return n, nil
}

// ready waits until the server answers.
func (n *node) ready(ctx context.Context, encrypted bool) error {
	scheme := "http://"
	if encrypted {
		scheme = "https://"
	}
	asker := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer asker.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+n.at(httpPort)+"/readyz", nil)
		if err != nil {
			return err
		}
		if res, err := asker.Do(req); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-n.exited:
			n.exited <- err
			return fmt.Errorf("ended: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *node) at(port int) string { return fmt.Sprintf("%s:%d", n.ip, port) }

func (n *node) pid() int { return n.cmd.Process.Pid }

// stop ends the node in good order, or kills it after 30 seconds.
func (n *node) stop() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-n.exited:
	case <-time.After(30 * time.Second):
		_ = n.cmd.Process.Kill()
		<-n.exited
	}
}
