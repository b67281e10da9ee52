package setup

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

// readConfig reads the configuration of the node. Without a file at the default path, every door is
// open at its default address.
func (p *Plan) readConfig() error {
	f, err := p.tree.read(p.options.Config)
	if err != nil {
		return err
	}
	if p.mustConfig && !f.exists {
		return fmt.Errorf("setup: the node's configuration: open %s: %w", p.options.Config, fs.ErrNotExist)
	}
	p.config = config.Default()
	if f.exists {
		if p.config, err = config.Parse([]byte(f.text)); err != nil {
			return fmt.Errorf("setup: %s: %w", p.options.Config, err)
		}
	}
	p.listens = make(map[string]string)
	for _, d := range p.config.Listen.Doors() {
		p.listens[d.Key] = d.Address
	}
	return nil
}

// door returns the address at which programs on the same machine reach a door, "127.0.0.1:8891" or
// "unix:/path". A door that is off will be opened at its default address.
func (p *Plan) door(key string) string {
	if p.listens[key] == "" {
		for _, d := range config.Default().Listen.Doors() {
			if d.Key == key {
				p.listens[key] = d.Address
			}
		}
	}
	return config.Reachable(p.listens[key])
}

// server returns the URL of the node.
func (p *Plan) server() string {
	scheme := "http://"
	if p.config.HTTP.TLSCert != "" {
		scheme = "https://"
		p.note("the node has a certificate: the host in %s must be a name in it, not %s", p.options.Config, p.door("http"))
	}
	return scheme + p.door("http")
}

// sampleLimit is a sample rule, which only measures and refuses no mail.
const sampleLimit = `
# How many recipients an account writes to. "dunno" measures only: once /metrics
# shows that no honest user reaches the limit, make it "defer".
[[ratelimit]]
name = "recipients"
key = "{sasl_username}"
unique = "{recipient}"
limit = 500
period = "1h"
action = "dunno"
mode = "strict"
`

// planDoors plans to open the needed doors in the node's configuration.
func (p *Plan) planDoors() error {
	var missing []config.Door
	for _, d := range p.config.Listen.Doors() {
		if d.Address == "" && p.listens[d.Key] != "" {
			missing = append(missing, config.Door{Key: d.Key, Address: p.listens[d.Key]})
		}
	}
	limit := p.does("policy") && len(p.config.RateLimit) == 0 && !p.unwritable("policy")
	if len(missing) == 0 && !limit {
		return nil
	}
	f, err := p.tree.read(p.options.Config)
	if err != nil {
		return err
	}
	if !f.exists && !limit {
		return nil // every door is open
	}
	text := withDoors(f.text, missing)
	if limit {
		if !f.exists {
			var all []config.Door
			all = append(all, p.config.Listen.Doors()...)
			text = withDoors("", all)
		}
		text += sampleLimit
	}
	// The text was edited, so check that it still has the intended meaning.
	cfg, err := config.Parse([]byte(text))
	if err == nil {
		for _, d := range cfg.Listen.Doors() {
			if d.Address != p.listens[d.Key] {
				err = fmt.Errorf("listen.%s is %q, want %q", d.Key, d.Address, p.listens[d.Key])
			}
		}
	}
	if err != nil {
		for _, d := range missing {
			p.note("add %s = %q to [listen] in %s: setup does not understand how it is written", d.Key, d.Address,
				p.options.Config)
		}
		return nil
	}
	if err := p.place("bulkhead", p.options.Config, text); err != nil {
		return err
	}
	p.After = append([]string{"bulkhead config check " + p.options.Config, "systemctl restart bulkhead"}, p.After...)
	return nil
}

var listenTable = regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*listen[ \t]*\][^\n]*(\n|$)`)

// withDoors returns a configuration with further keys in [listen].
func withDoors(text string, doors []config.Door) string {
	var lines strings.Builder
	for _, d := range doors {
		if d.Address != "" {
			fmt.Fprintf(&lines, "%s = %q\n", d.Key, d.Address)
		}
	}
	at := listenTable.FindStringIndex(text)
	if at == nil {
		if text != "" {
			text = strings.TrimRight(text, "\n") + "\n\n"
		}
		return text + "[listen]\n" + lines.String()
	}
	// After the present keys, before the comments on the next table.
	end := at[1]
	for l := range strings.Lines(text[at[1]:]) {
		trimmed := strings.TrimSpace(l)
		if trimmed == "" || strings.HasPrefix(trimmed, "[") {
			break
		}
		end += len(l)
	}
	head := text[:end]
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + lines.String() + text[end:]
}
