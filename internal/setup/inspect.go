package setup

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// A Finding reports whether one program asks the node, as far as its configuration shows.
type Finding struct {
	Program string // of [Programs]
	OK      bool
	Found   string
	Mend    string // what to do; "" if OK
}

// postfixRoot is the chroot folder of Postfix's services.
const postfixRoot = "/var/spool/postfix"

// Inspect reports for each program below a root that passes whole mail whether it asks the node.
// For a program that does, it reports problems that defeat the purpose: a score of 0, a socket that
// its chroot hides, or mail that is delayed while the node is down. It changes nothing.
func Inspect(o Options) ([]Finding, error) {
	o.For = nil
	p, err := Look(o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	// The present configuration, without the doors that setup would open.
	for _, d := range p.config.Listen.Doors() {
		p.listens[d.Key] = d.Address
	}
	var all []Finding
	asking := false
	for _, one := range []struct {
		name string
		look func() (asks bool, problem, mend string, err error)
	}{
		{"rspamd", p.inspectRspamd}, {"spamassassin", p.inspectSpamAssassin}, {"postfix", p.inspectPostfix},
		{"dovecot", p.inspectDovecot},
	} {
		if !p.has(one.name) {
			continue
		}
		asks, problem, mend, err := one.look()
		if err != nil {
			return nil, err
		}
		asking = asking || asks && one.name != "dovecot" // which reports mail, and does not ask about it
		f := Finding{Program: one.name, OK: true, Found: "does not ask the node"}
		switch {
		case problem != "":
			f.OK, f.Found, f.Mend = false, problem, mend
		case asks && one.name == "dovecot":
			f.Found = "moves into and out of junk are votes"
		case one.name == "dovecot":
			f.Found = "moves into junk are no votes: bulkhead setup --for dovecot"
		case asks:
			f.Found = "asks the node"
		}
		all = append(all, f)
	}
	// It is no fault if only one of them asks.
	if last := slices.IndexFunc(all, func(f Finding) bool { return f.Program != "dovecot" }); last >= 0 && !asking {
		for i := last; i < len(all) && all[i].Program != "dovecot"; i++ {
			last = i
		}
		if last := &all[last]; last.OK {
			last.OK, last.Found, last.Mend = false, "no mail program of this machine asks the node", "bulkhead setup"
		}
	}
	return all, nil
}

// now returns the present contents of a file, including the lines from setup.
func (p *Plan) now(name string) (string, error) {
	f, err := p.tree.read(name)
	return f.text, err
}

// has reports whether a program was found; Amavis runs SpamAssassin's rules.
func (p *Plan) has(name string) bool {
	for _, one := range p.Found {
		if one == name || name == "spamassassin" && one == "amavis" {
			return true
		}
	}
	return false
}

var (
	commentLine  = regexp.MustCompile(`(?m)^[ \t]*#.*$`)
	rspamdWeight = regexp.MustCompile(`(?s)"?BULKHEAD_SPAM"?\s*\{[^}]*?(?:weight|score)\s*[=:]?\s*(-?[0-9]+(?:\.[0-9]+)?)`)
	cfScore      = regexp.MustCompile(`(?m)^[ \t]*score[ \t]+BULKHEAD_SPAM[ \t]+(-?[0-9]+(?:\.[0-9]+)?)`)
)

func (p *Plan) inspectRspamd() (asks bool, problem, mend string, err error) {
	local, err := p.now(rspamdLocal)
	if err != nil {
		return false, "", "", err
	}
	section := ownSection.MatchString(local)
	switch plugin := p.tree.exists(rspamdPlugin) || pluginPath.MatchString(local); {
	case !section && !plugin:
		return false, "", "", nil
	case !plugin:
		return true, rspamdLocal + " has a section bulkhead, but the plugin is not loaded", "bulkhead setup --for rspamd", nil
	case !section:
		return true, "the plugin is there, but " + rspamdLocal + " has no section bulkhead, so it does nothing",
			"bulkhead setup --for rspamd", nil
	}
	weight := rspamdScore
	for _, name := range []string{rspamdGroups, "/etc/rspamd/override.d/groups.conf"} {
		text, err := p.now(name)
		if err != nil {
			return true, "", "", err
		}
		weight = lastNumber(rspamdWeight, commentLine.ReplaceAllString(text, ""), weight)
	}
	if weight <= 0 {
		return true, fmt.Sprintf("its score of BULKHEAD_SPAM is %g: what the node calls spam changes nothing", weight),
			"take BULKHEAD_SPAM out of " + rspamdGroups + ", or give it a weight of 8", nil
	}
	return true, "", "", nil
}

func (p *Plan) inspectSpamAssassin() (asks bool, problem, mend string, err error) {
	for _, dir := range rulesFolders {
		if !p.tree.exists(dir + "/bulkhead.cf") {
			continue
		}
		if !p.tree.exists(dir + "/Bulkhead.pm") {
			return true, dir + "/bulkhead.cf has the rules, but Bulkhead.pm is not beside it",
				"bulkhead setup --for spamassassin", nil
		}
		score := spamScore
		for _, name := range p.tree.list(dir) { // in SpamAssassin's reading order
			if !strings.HasSuffix(name, ".cf") {
				continue
			}
			text, err := p.now(path.Join(dir, name))
			if err != nil {
				return true, "", "", err
			}
			score = lastNumber(cfScore, text, score)
		}
		if score <= 0 {
			return true, fmt.Sprintf("its score of BULKHEAD_SPAM is %g, with which the rule is off", score),
				"take score BULKHEAD_SPAM out of the files in " + dir, nil
		}
		return true, "", "", nil
	}
	return false, "", "", nil
}

func (p *Plan) inspectPostfix() (asks bool, problem, mend string, err error) {
	text, err := p.now(mainCF)
	if err != nil {
		return false, "", "", err
	}
	master, err := p.now("/etc/postfix/master.cf")
	if err != nil {
		return false, "", "", err
	}
	for _, one := range []struct{ door, parameters string }{
		{"milter", "smtpd_milters"},
		{"policy",
			"smtpd_recipient_restrictions smtpd_client_restrictions smtpd_relay_restrictions smtpd_data_restrictions " +
				"smtpd_end_of_data_restrictions"},
	} {
		for _, name := range strings.Fields(one.parameters) {
			value := parameter(text, name)
			endpoint, own := p.ownEndpoint(value, one.door)
			if endpoint == "" {
				continue
			}
			asks = asks || one.door == "milter"
			switch socket := strings.TrimPrefix(endpoint, "unix:"); {
			case !own && p.listens[one.door] == "":
				return asks, fmt.Sprintf("%s names %s, and the node's door %s is off", name, endpoint, one.door),
					"bulkhead setup --for " + p.named(one.door), nil
			case socket != endpoint:
				if problem, mend := p.inspectSocket(socket, runsInChroot(master), one.door); problem != "" {
					return asks, problem, mend, nil
				}
			}
			if one.door == "policy" && !strings.Contains(value, "default_action=DUNNO") &&
				!strings.Contains(parameter(text, "smtpd_policy_service_default_action"), "DUNNO") {
				return asks, name + " asks the node without default_action=DUNNO: Postfix defers all mail while the node is away",
					"check_policy_service { " + endpoint + ", timeout=10s, default_action=DUNNO }", nil
			}
		}
	}
	return asks, "", "", nil
}

// named returns the program of [Programs] that opens a door for Postfix.
func (p *Plan) named(door string) string {
	if door == "policy" {
		return "policy"
	}
	return "postfix"
}

var endpoints = regexp.MustCompile(`\b(?:inet|unix):[^ \t,}]+`)

// ownEndpoint returns the first endpoint in a value of main.cf that is a door of the node: the
// door's address or its default address. own reports whether it is the present address.
func (p *Plan) ownEndpoint(value, door string) (endpoint string, own bool) {
	usual := ""
	for _, d := range config.Default().Listen.Doors() {
		if d.Key == door {
			usual = postfixEndpoint(d.Address)
		}
	}
	for _, e := range endpoints.FindAllString(value, -1) {
		if e == postfixEndpoint(p.listens[door]) {
			return e, true
		}
		if path, ok := strings.CutPrefix(p.listens[door], "unix:"); ok && e == "unix:"+path {
			return e, true // as without a chroot
		}
		if e == usual || strings.HasPrefix(e, "unix:") && strings.Contains(e, "bulkhead") {
			return e, false
		}
	}
	return "", false
}

var smtpdService = regexp.MustCompile(
	`(?m)^(?:smtp|smtps|submission|[0-9.:\[\]]*(?:25|465|587))[ \t]+inet[ \t]+\S+[ \t]+\S+[ \t]+(\S+)[ ` +
		`\t]+\S+[ \t]+\S+[ \t]+smtpd`)

// runsInChroot reports whether a service that accepts mail runs in a chroot. This is the fifth
// column of master.cf, in which "-" means no since Postfix 3.0. Source: master(5).
func runsInChroot(master string) bool {
	for _, m := range smtpdService.FindAllStringSubmatch(master, -1) {
		if m[1] == "y" {
			return true
		}
	}
	return false
}

// inspectSocket checks a socket as Postfix sees it. Relative names start in the queue directory.
func (p *Plan) inspectSocket(socket string, chroot bool, door string) (problem, mend string) {
	at := socket
	if chroot || !path.IsAbs(socket) {
		at = path.Join(postfixRoot, socket)
	}
	listens := strings.TrimPrefix(p.listens[door], "unix:")
	if listens != at && listens != "" {
		return fmt.Sprintf("smtpd looks for the socket at %s, and the node listens at %s", at, listens),
			fmt.Sprintf("%s = \"unix:%s\" in [listen], in a folder that belongs to bulkhead (operations.md)", door, at)
	}
	info, err := p.tree.stat(at)
	if err != nil {
		return fmt.Sprintf("there is no socket at %s", at),
			"start the node; its service may write there with ReadWritePaths= (operations.md)"
	}
	if info.Mode().Type() != fs.ModeSocket {
		return at + " is no socket", "remove it, and restart the node"
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && !p.mayWrite("postfix", s, info.Mode()) {
		return fmt.Sprintf("the user postfix may not open %s (%v)", at, info.Mode().Perm()),
			fmt.Sprintf("chgrp postfix %[1]s; chmod 2750 %[1]s; and restart the node", path.Dir(at))
	}
	return "", ""
}

// mayWrite reports whether a user may write to a file, according to the root's users and groups. It
// returns true if the root does not have the user.
func (p *Plan) mayWrite(user string, s *syscall.Stat_t, mode fs.FileMode) bool {
	users, err1 := p.now("/etc/passwd")
	groups, err2 := p.now("/etc/group")
	if err1 != nil || err2 != nil || mode&0o002 != 0 {
		return true
	}
	uid, gid, found := -1, -1, false
	for line := range strings.Lines(users) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) > 3 && f[0] == user {
			uid, found = number(f[2]), true
			gid = number(f[3])
		}
	}
	switch {
	case !found, uid == int(s.Uid) && mode&0o200 != 0:
		return true
	case mode&0o020 == 0:
		return false
	case gid == int(s.Gid):
		return true
	}
	for line := range strings.Lines(groups) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) > 3 && number(f[2]) == int(s.Gid) && strings.Contains(","+f[3]+",", ","+user+",") {
			return true
		}
	}
	return false
}

// number parses a number of passwd or group; -1 if the text is not a number.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

var sievePath = regexp.MustCompile(`(?m)^[^#\n]*?(/[^\s"]*/(?:spam|ham|arrived)\.sieve)`)

// inspectDovecot looks for the scripts that setup or the package's configuration for Dovecot 2.4 names.
func (p *Plan) inspectDovecot() (votes bool, problem, mend string, err error) {
	d, err := p.readDovecot()
	if err != nil {
		return false, "", "", err
	}
	text, err := p.now(dovecotOurs)
	if err == nil && text == "" {
		text, err = p.now(dovecotConf)
	}
	if err != nil {
		return false, "", "", err
	}
	pipes := ""
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == "sieve_pipe_bin_dir" {
			pipes = strings.TrimSpace(value)
		}
	}
	found := sievePath.FindAllStringSubmatch(text, -1)
	if len(found) == 0 || pipes == "" {
		return false, "", "", nil
	}
	again := "bulkhead setup --for dovecot"
	if d.version4 {
		again = "put back the scripts of " + packageScripts
	}
	for _, m := range found {
		if !p.tree.exists(m[1]) {
			return true, m[1] + ", which Dovecot runs, is missing", again, nil
		}
	}
	script := path.Join(pipes, "bulkhead-vote")
	vote, err := p.tree.read(script)
	switch {
	case err != nil:
		return true, "", "", err
	case !vote.exists:
		return true, script + ", which casts the votes, is missing", again, nil
	case vote.mode&0o111 == 0:
		return true, script + ", which casts the votes, is not executable", "chmod 755 " + script, nil
	}
	if m := voteProgram.FindStringSubmatch(vote.text); m != nil && !p.tree.exists(m[1]) {
		return true, script + " runs " + m[1] + ", which is missing", again, nil
	}
	return true, "", "", nil
}

var voteProgram = regexp.MustCompile(`(?m)^[^#\n]*?(/\S*bulkhead) report`)
