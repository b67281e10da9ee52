package setup

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inspect returns the finding about one program.
func inspect(t *testing.T, root, program string) Finding {
	t.Helper()
	all, err := Inspect(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.Program == program {
			if f.OK != (f.Mend == "") || f.Found == "" {
				t.Errorf("%+v", f)
			}
			return f
		}
	}
	t.Fatalf("nothing of %s in %+v", program, all)
	return Finding{}
}

// machines are three machines, as Debian's packages leave them.
var machines = map[string]map[string]string{
	"rspamd":       {"/etc/rspamd/rspamd.conf": "\n"},
	"spamassassin": {"/etc/spamassassin/local.cf": "required_score 5\n"},
	"postfix": {
		"/etc/postfix/main.cf":   "compatibility_level = 3.6\nsmtpd_relay_restrictions = permit_mynetworks\n",
		"/etc/postfix/master.cf": "smtp      inet  n       -       y       -       -       smtpd\n",
		"/etc/passwd":            "root:x:0:0::/root:/bin/sh\npostfix:x:4000001:4000001::/:/bin/false\n",
		"/etc/group":             "bulkhead:x:4000002:\n",
	},
}

// TestInspect: a program that does not ask the node gets advice to do so, and a program that setup
// has configured is in order, until its configuration is broken.
func TestInspect(t *testing.T) {
	for _, tt := range []struct {
		program, file, from, to string // "" for file: remove the lines from setup
		want, mend              string
	}{
		{"rspamd", "/etc/rspamd/local.d/groups.conf", "", "symbols = { \"BULKHEAD_SPAM\" { weight = 0.0; } }\n",
			"score of BULKHEAD_SPAM is 0", "weight of 8"},
		{"rspamd", "/etc/rspamd/override.d/groups.conf", "",
			"group \"bulkhead\" {\n symbols {\n  BULKHEAD_SPAM {\n   # loud\n   score = 0;\n  }\n }\n}\n",
			"score of BULKHEAD_SPAM is 0", ""},
		{"rspamd", rspamdPlugin, "", "-", "the plugin is not loaded", "setup --for rspamd"},
		{"rspamd", rspamdLocal, "bulkhead {", "other {", "no section bulkhead", "setup --for rspamd"},
		{"spamassassin", "/etc/spamassassin/local.cf", "required_score 5\n", "required_score 5\nscore BULKHEAD_SPAM 0\n",
			"score of BULKHEAD_SPAM is 0", "take score"},
		{"spamassassin", "/etc/spamassassin/Bulkhead.pm", "", "-", "Bulkhead.pm is not beside it",
			"setup --for spamassassin"},
		{"postfix", "/etc/bulkhead/bulkhead.toml", "milter =", "# milter =", "door milter is off", "setup --for postfix"},
		{"postfix", "/etc/postfix/main.cf", "compat",
			"smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:10040\ncompat", "defers all mail", "DUNNO"},
	} {
		t.Run(tt.program+" "+tt.want, func(t *testing.T) {
			files := map[string]string{DefaultConfig: "[listen]\nhttp = \"127.0.0.1:8420\"\npolicy = \"127.0.0.1:10040\"\n"}
			for name, text := range machines[tt.program] {
				files[name] = text
			}
			root := plant(t, files)
			if f := inspect(t, root, tt.program); f.OK || !strings.Contains(f.Found, "no mail program") ||
				f.Mend != "bulkhead setup" {
				t.Errorf("before: %+v", f)
			}
			apply(t, Options{Root: root, For: []string{tt.program}})
			if f := inspect(t, root, tt.program); !f.OK || f.Found != "asks the node" {
				t.Errorf("set up: %+v", f)
			}
			at := filepath.Join(root, tt.file)
			old, err := os.ReadFile(at)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if tt.to == "-" {
				err = os.Remove(at)
			} else {
				is := tt.to
				if tt.from != "" {
					if is = strings.Replace(string(old), tt.from, tt.to, 1); is == string(old) {
						t.Fatalf("%s has no %q:\n%s", tt.file, tt.from, old)
					}
				}
				if err = os.MkdirAll(filepath.Dir(at), 0o755); err == nil {
					err = os.WriteFile(at, []byte(is), 0o640)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if f := inspect(t, root, tt.program); f.OK || !strings.Contains(f.Found, tt.want) ||
				!strings.Contains(f.Mend, tt.mend) {
				t.Errorf("broken: %+v", f)
			}
		})
	}
}

// TestInspectSocket: a socket that smtpd cannot see from its chroot, that does not exist, or that
// smtpd may not open.
func TestInspectSocket(t *testing.T) {
	const inside = "/var/spool/postfix/bulkhead/milter"
	machine := func(listen, milter, chroot string) string {
		t.Helper()
		files := map[string]string{DefaultConfig: "[listen]\nhttp = \"127.0.0.1:8420\"\nmilter = \"unix:" + listen + "\"\n"}
		for name, text := range machines["postfix"] {
			files[name] = text
		}
		files["/etc/postfix/main.cf"] = "smtpd_milters = { unix:" + milter + ", default_action=accept }\n"
		files["/etc/postfix/master.cf"] = strings.Replace(files["/etc/postfix/master.cf"], " y ", " "+chroot+" ", 1)
		return plant(t, files)
	}
	socket := func(root, at string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, at)), 0o755); err != nil {
			t.Fatal(err)
		}
		// A socket's path is short; the path of the test's folder may not be.
		dir, err := os.Open(filepath.Dir(filepath.Join(root, at)))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		l, err := net.Listen("unix", "/proc/self/fd/"+fmt.Sprint(dir.Fd())+"/"+filepath.Base(at))
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		l.Close()
		if err := os.Chmod(filepath.Join(root, at), mode); err != nil {
			t.Fatal(err)
		}
	}
	if f := inspect(t, machine("/run/bulkhead/milter", "/run/bulkhead/milter", "y"), "postfix"); f.OK ||
		!strings.Contains(f.Found, "smtpd looks for the socket at /var/spool/postfix/run/bulkhead/milter") ||
		!strings.Contains(f.Mend, "unix:/var/spool/postfix/run") {
		t.Errorf("outside of the chroot: %+v", f)
	}
	root := machine(inside, "bulkhead/milter", "y")
	if f := inspect(t, root, "postfix"); f.OK || !strings.Contains(f.Found, "there is no socket") {
		t.Errorf("no socket: %+v", f)
	}
	socket(root, inside, 0o660)
	if f := inspect(t, root, "postfix"); f.OK || !strings.Contains(f.Found, "postfix may not open") ||
		!strings.Contains(f.Mend, "chgrp postfix /var/spool/postfix/bulkhead; chmod 2750 ") {
		t.Errorf("another group: %+v", f)
	}
	group := "bulkhead:x:" + fmt.Sprint(os.Getgid()) + ":ann,postfix\n"
	if err := os.WriteFile(filepath.Join(root, "etc/group"), []byte(group), 0o644); err != nil {
		t.Fatal(err)
	}
	if f := inspect(t, root, "postfix"); !f.OK || f.Found != "asks the node" {
		t.Errorf("in the group: %+v", f)
	}
	if err := os.Chmod(filepath.Join(root, inside), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := inspect(t, root, "postfix"); f.OK || !strings.Contains(f.Found, "may not open") {
		t.Errorf("closed to the group: %+v", f)
	}
	root = machine("/run/bulkhead/milter", "/run/bulkhead/milter", "n")
	socket(root, "/run/bulkhead/milter", 0o666)
	if f := inspect(t, root, "postfix"); !f.OK {
		t.Errorf("without a chroot: %+v", f)
	}
	if err := os.Remove(filepath.Join(root, "/run/bulkhead/milter")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "/run/bulkhead/milter"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if f := inspect(t, root, "postfix"); f.OK || !strings.Contains(f.Found, "is no socket") {
		t.Errorf("a file: %+v", f)
	}
}

// TestInspectDovecot takes away, one after the other, what the votes of Dovecot's users need.
func TestInspectDovecot(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		at := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	row := func() Finding {
		t.Helper()
		all, err := Inspect(Options{Root: root})
		if err != nil || len(all) != 1 || all[0].Program != "dovecot" {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	write("etc/dovecot/dovecot.conf", "protocols = imap\n!include conf.d/*.conf\n")
	write("usr/lib/dovecot/modules/lib95_imap_sieve_plugin.so", "")
	write("usr/bin/bulkhead", "")
	if f := row(); !f.OK || !strings.Contains(f.Found, "no votes") {
		t.Errorf("before setup: %+v", f)
	}
	p, err := Look(Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Apply(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if f := row(); !f.OK || f.Found != "moves into and out of junk are votes" {
		t.Errorf("after setup: %+v", f)
	}
	vote := filepath.Join(root, dovecotMailed, "bulkhead-vote")
	if err := os.Chmod(vote, 0o644); err != nil {
		t.Fatal(err)
	}
	if f := row(); f.OK || !strings.Contains(f.Found, "not executable") || !strings.HasPrefix(f.Mend, "chmod 755") {
		t.Errorf("a script that cannot run: %+v", f)
	}
	for _, one := range []struct{ name, want string }{
		{"usr/bin/bulkhead", "runs /usr/bin/bulkhead, which is missing"},
		{dovecotMailed + "/bulkhead-vote", "which casts the votes, is missing"},
		{dovecotSieve + "/ham.sieve", "which Dovecot runs, is missing"},
	} {
		if err := errors.Join(os.Chmod(filepath.Dir(vote), 0o755), os.Remove(filepath.Join(root, one.name))); err != nil {
			t.Fatal(err)
		}
		if one.name == "usr/bin/bulkhead" {
			if err := os.Chmod(vote, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if f := row(); f.OK || !strings.Contains(f.Found, one.want) || f.Mend == "" {
			t.Errorf("without %s: %+v", one.name, f)
		}
	}
}
