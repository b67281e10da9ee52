package learning

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed spamassassin.pl
var spamAssassinScript string

const spamAssassinRules = `loadplugin Mail::SpamAssassin::Plugin::Check
loadplugin Mail::SpamAssassin::Plugin::Bayes
util_rb_tld com org net example
skip_rbl_checks 1
use_bayes 1
bayes_auto_learn 0
bayes_path %s/bayes
body BAYES_ANY eval:check_bayes('0.00', '1.00')
tflags BAYES_ANY learn
`

// A spamAssassin is a Perl program with SpamAssassin's Bayes classifier and no other rules.
type spamAssassin struct {
	dir string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// SpamAssassin starts SpamAssassin's Bayes classifier with its default settings, in a folder of its own in dir.
// It scores nothing before it has learnt 200 messages of each kind.
func SpamAssassin(ctx context.Context, dir string) (Learner, error) {
	s := &spamAssassin{dir: filepath.Join(dir, "spamassassin")}
	script := filepath.Join(s.dir, "script.pl")
	if err := errors.Join(os.Mkdir(s.dir, 0o700), os.WriteFile(script, []byte(spamAssassinScript), 0o600),
		os.WriteFile(filepath.Join(s.dir, "local.cf"), fmt.Appendf(nil, spamAssassinRules, s.dir), 0o600),
		os.WriteFile(filepath.Join(s.dir, "user_prefs"), nil, 0o600)); err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, "perl", script, s.dir)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return s, s.cmd.Start()
}

func (s *spamAssassin) ask(what string, raw []byte) (string, error) {
	file := filepath.Join(s.dir, "message")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(s.in, "%s %s\n", what, file); err != nil {
		return "", err
	}
	answer, err := s.out.ReadString('\n')
	return strings.TrimSpace(answer), err
}

// Score implements [Learner].
func (s *spamAssassin) Score(_ context.Context, raw []byte) (float64, error) {
	answer, err := s.ask("check", raw)
	if err != nil || answer == "-" {
		return 0, err
	}
	return strconv.ParseFloat(answer, 64)
}

// Learn implements [Learner].
func (s *spamAssassin) Learn(_ context.Context, raw []byte, spam bool) error {
	_, err := s.ask(map[bool]string{true: "spam", false: "ham"}[spam], raw)
	return err
}

// Close implements [Learner].
func (s *spamAssassin) Close() error { return errors.Join(s.in.Close(), s.cmd.Wait()) }

const rspamdConfig = `
options {
  pidfile = "%[1]s/pid"; tempdir = "%[1]s"; history_file = "%[1]s/history"; rrd = "%[1]s/rrd"; filters = "";
  stats_file = "%[1]s/stats"; dynamic_conf = "%[1]s/dynamic"; hs_cache_dir = "%[1]s"; url_tld = "%[1]s/tld";
  local_addrs = []; dns { nameserver = ["127.0.0.1:1"]; timeout = 0.1s; retransmits = 1; }
}
logging { type = "console"; level = "error"; }
worker "normal" { bind_socket = "127.0.0.1:%[2]d"; count = 1; }
worker "controller" { bind_socket = "127.0.0.1:%[3]d"; count = 1; secure_ip = "127.0.0.1"; }
metric { name = "default"; actions { reject = 15; } unknown_weight = 1; }
redis { servers = "127.0.0.1:%[4]d"; }
classifier "bayes" {
  tokenizer { name = "osb"; }
  backend = "redis"; servers = "127.0.0.1:%[4]d"; new_schema = true;
  cache { servers = "127.0.0.1:%[4]d"; }
  min_tokens = 11; min_learns = 200; learn_condition = 'return require("lua_bayes_learn").can_learn';
  statfile { symbol = "BAYES_HAM"; spam = false; }
  statfile { symbol = "BAYES_SPAM"; spam = true; }
}
`

// An rspamd is a running rspamd with its Bayes classifier in Redis and no other rules.
type rspamd struct {
	cmds               []*exec.Cmd
	worker, controller int
}

// Rspamd starts rspamd's Bayes classifier and Redis, with their default settings, in a folder of its own in
// dir. It scores nothing before it has learnt 200 messages of each kind.
func Rspamd(ctx context.Context, dir string) (Learner, error) {
	dir = filepath.Join(dir, "rspamd")
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	r := &rspamd{worker: ports[0], controller: ports[1]}
	config := filepath.Join(dir, "rspamd.conf")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "tld"), []byte("com\norg\nnet\n"), 0o600),
		os.WriteFile(config, fmt.Appendf(nil, rspamdConfig, dir, ports[0], ports[1], ports[2]), 0o600)); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"redis-server", "--port", strconv.Itoa(ports[2]), "--bind", "127.0.0.1", "--save", "", "--dir", dir,
			"--loglevel", "warning"},
		{"rspamd", "-i", "-f", "-c", config},
	} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Stderr = os.Stderr
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.cmds = append(r.cmds, cmd)
	}
	return r, r.ready(ctx, ports)
}

// freePorts returns numbers of ports that nothing listens at.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// ready waits until all listen.
func (r *rspamd) ready(ctx context.Context, ports []int) error {
	for _, port := range ports {
		for {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err == nil {
				if err := c.Close(); err != nil {
					return err
				}
				break
			}
			select {
			case <-ctx.Done():
				return errors.Join(ctx.Err(), r.Close())
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
	return nil
}

func (r *rspamd) post(ctx context.Context, port int, path string, raw []byte) (int, []byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/%s", port, path),
		bytes.NewReader(raw))
	if err != nil {
		return 0, nil, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, body, err
}

// Score implements [Learner]. rspamd shows the distance of the probability from 1/2, in percent.
func (r *rspamd) Score(ctx context.Context, raw []byte) (float64, error) {
	var answer struct {
		Symbols map[string]struct{ Options []string }
	}
	code, body, err := r.post(ctx, r.worker, "checkv2", raw)
	if err == nil && code == http.StatusOK {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil || code != http.StatusOK {
		return 0, errors.Join(err, fmt.Errorf("rspamd: %d %.200s", code, body))
	}
	spam, ok := answer.Symbols["BAYES_SPAM"]
	if !ok || len(spam.Options) == 0 {
		return 0, nil
	}
	percent, err := strconv.ParseFloat(strings.TrimSuffix(spam.Options[0], "%"), 64)
	return (1 + percent/100) / 2, err
}

// Learn implements [Learner]. A message with too few words is not learnt.
func (r *rspamd) Learn(ctx context.Context, raw []byte, spam bool) error {
	code, body, err := r.post(ctx, r.controller, map[bool]string{true: "learnspam", false: "learnham"}[spam], raw)
	if err == nil && (code < 200 || code > 299) && code != http.StatusNotFound {
		err = fmt.Errorf("rspamd: %d %.200s", code, body)
	}
	return err
}

// Close implements [Learner].
func (r *rspamd) Close() (err error) {
	for _, cmd := range r.cmds {
		if e := cmd.Process.Signal(os.Interrupt); e != nil {
			err = errors.Join(err, e)
		}
		if e := cmd.Wait(); e != nil && !errors.As(e, new(*exec.ExitError)) {
			err = errors.Join(err, e)
		}
	}
	return err
}
