package setup

import (
	"regexp"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

const mainCF = "/etc/postfix/main.cf"

// postfix makes Postfix use the milter, unless a program that scores mail already asks the node.
// The format of the file is described in postconf(5).
func (p *Plan) postfix() error {
	text, err := p.text(mainCF)
	if err != nil {
		return err
	}
	endpoint := postfixEndpoint(p.listens["milter"])
	asked := len(p.options.For) > 0
	if scorer := p.scorer(); scorer != "" && !asked &&
		(endpoint == "" || !strings.Contains(parameter(text, "smtpd_milters"), endpoint)) {
		p.note(
			"Postfix stays as it is: %s hands the node all mail. --for %s,postfix adds the milter, which judges mail "+
				"while its sender waits", scorer, scorer)
		return nil
	}
	if p.unwritable("milter") {
		return nil
	}
	address := p.door("milter")
	endpoint = postfixEndpoint(address)
	if strings.HasPrefix(endpoint, "unix:/") {
		p.note("Postfix's smtpd may run in a chroot, %s: it reaches %s only if that lies there",
			"/var/spool/postfix", address)
	}
	milter := "{ " + endpoint + ", connect_timeout=5s, content_timeout=30s, default_action=accept }"
	err = p.edit("postfix", mainCF, func(text string) string {
		if strings.Contains(parameter(text, "smtpd_milters"), endpoint) {
			return text
		}
		return appendParameter(text, "smtpd_milters", milter)
	})
	master, err2 := p.text("/etc/postfix/master.cf")
	if overridesMilters.MatchString(master) {
		p.note("master.cf sets smtpd_milters for some services: those do not see the milter of the node")
	}
	p.after("postfix check", "systemctl reload postfix")
	if err == nil {
		err = err2
	}
	return err
}

var overridesMilters = regexp.MustCompile(`(?m)^[ \t]+-o[ \t]*smtpd_milters=`)

// milterCounts reports whether the milter sees mail, now or after the plan, and so counts
// deliveries.
func (p *Plan) milterCounts() (bool, error) {
	if p.does("postfix") && len(p.options.For) > 0 && !p.unwritable("milter") {
		return true, nil
	}
	text, err := p.text(mainCF)
	endpoint := postfixEndpoint(p.listens["milter"])
	return endpoint != "" && strings.Contains(parameter(text, "smtpd_milters"), endpoint), err
}

// scorer returns a program of the plan that passes whole mail to the node.
func (p *Plan) scorer() string {
	for _, name := range []string{"rspamd", "spamassassin", "amavis"} {
		if p.does(name) {
			return name
		}
	}
	return ""
}

// policy makes Postfix ask the node about rate limits.
func (p *Plan) policy() error {
	if !p.tree.exists(mainCF) {
		p.note("there is no Postfix to ask about rate limits; docs/protocols/policy.md has the lines for Exim")
		p.door("policy")
		return nil
	}
	if p.unwritable("policy") {
		return nil
	}
	endpoint := postfixEndpoint(p.door("policy"))
	service := "check_policy_service { " + endpoint + ", timeout=10s, default_action=DUNNO }"
	p.after("postfix check", "systemctl reload postfix")
	return p.edit("policy", mainCF, func(text string) string {
		const name = "smtpd_recipient_restrictions"
		value := parameter(text, name)
		switch {
		case strings.Contains(value, endpoint):
			return text
		case value != "":
			return prependParameter(text, name, service+",")
		case parameter(text, "smtpd_relay_restrictions") != "":
			return appendParameter(text, name, service)
		}
		// Before Postfix 2.10 introduced smtpd_relay_restrictions, only these restrictions kept a server
		// from being an open relay. This still holds at a compatibility level of 0.
		return appendParameter(text, name, service+
			", permit_mynetworks, permit_sasl_authenticated, reject_unauth_destination")
	})
}

// unwritable reports whether main.cf cannot name the socket of a door. It then adds a note. Postfix divides its
// lists at blanks and commas, reads braces and $, and has no quotes.
func (p *Plan) unwritable(door string) bool {
	if address := p.listens[door]; strings.ContainsAny(address, " \t\r\n,{}$\"") {
		p.note("Postfix stays as it is: main.cf cannot name %q, the %s of [listen]; choose a path without blanks, commas, "+
			"quotes, braces and $", address, door)
		return true
	}
	return false
}

// postfixEndpoint returns an address as Postfix writes it, inside its chroot.
func postfixEndpoint(address string) string {
	if address == "" {
		return ""
	}
	if path, ok := strings.CutPrefix(config.Reachable(address), "unix:"); ok {
		return "unix:" + strings.TrimPrefix(path, "/var/spool/postfix/")
	}
	return "inet:" + config.Reachable(address)
}

// definition returns the place of a parameter's last definition in main.cf: the lines from begin up
// to, but not including, end, without comments after its last line. begin is -1 if there is none.
func definition(lines []string, name string) (begin, end int) {
	begin = -1
	inside := false
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "#"):
			continue // does not end a definition
		case line[0] == ' ' || line[0] == '\t':
			if inside {
				end = i + 1
			}
			continue
		}
		key, _, ok := strings.Cut(line, "=")
		if inside = ok && strings.TrimSpace(key) == name; inside {
			begin, end = i, i+1
		}
	}
	return begin, end
}

// parameter returns the value of a parameter in main.cf, on one line; "" if it is not set.
func parameter(text, name string) string {
	lines := strings.SplitAfter(text, "\n")
	begin, end := definition(lines, name)
	if begin < 0 {
		return ""
	}
	var value []string
	for _, line := range lines[begin:end] {
		if trimmed := strings.TrimSpace(line); !strings.HasPrefix(trimmed, "#") {
			value = append(value, trimmed)
		}
	}
	_, v, _ := strings.Cut(strings.Join(value, " "), "=")
	return strings.TrimSpace(v)
}

// appendParameter adds to the value of a parameter.
func appendParameter(text, name, value string) string {
	lines := strings.SplitAfter(text, "\n")
	begin, end := definition(lines, name)
	if begin < 0 {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + name + " = " + value + "\n"
	}
	last := strings.TrimRight(lines[end-1], " \t\r\n")
	switch {
	case parameter(text, name) == "":
		last += " " + value
	case strings.HasSuffix(last, ","):
		last += " " + value
	default:
		last += ", " + value
	}
	lines[end-1] = last + "\n"
	return strings.Join(lines, "")
}

// prependParameter puts a text before the value of a parameter that has a value.
func prependParameter(text, name, value string) string {
	lines := strings.SplitAfter(text, "\n")
	begin, _ := definition(lines, name)
	key, rest, _ := strings.Cut(lines[begin], "=")
	lines[begin] = strings.TrimRight(key, " \t") + " = " + value
	if rest := strings.TrimLeft(rest, " \t"); strings.TrimSpace(rest) != "" {
		lines[begin] += " " + rest
	} else {
		lines[begin] += "\n"
	}
	return strings.Join(lines, "")
}
