package setup

import (
	"net"
	"regexp"
	"strings"
)

const razorAgent = "/etc/razor/razor-agent.conf"

var razorDiscovery = regexp.MustCompile(`(?m)^[ \t]*razordiscovery[ \t]*=[^\n]*`)

// razor makes Razor's clients discover the node.
func (p *Plan) razor() error {
	line := "razordiscovery = " + p.door("razor2")
	p.after("razor-admin -discover")
	return p.edit("razor", razorAgent, func(text string) string {
		if at := razorDiscovery.FindStringIndex(text); at != nil {
			return text[:at[0]] + line + text[at[1]:]
		}
		return withBlock(text, line+"\n")
	})
}

// pyzorHomes are the folders in which the pyzor command looks for its servers when the users of
// filters run it.
var pyzorHomes = []string{"/etc/spamassassin/.pyzor", "/etc/mail/spamassassin/.pyzor", "/var/lib/amavis/.pyzor",
	"/var/lib/spamassassin/.pyzor", "/root/.pyzor"}

// pyzor makes the pyzor command ask the node, in the homes in which it has been used.
func (p *Plan) pyzor() error {
	address := p.door("pyzor")
	var homes []string
	for _, home := range pyzorHomes {
		if p.tree.exists(home) {
			homes = append(homes, home)
		}
	}
	if len(homes) == 0 {
		homes = []string{"/root/.pyzor"}
	}
	p.note("each user of pyzor has servers of their own: echo %s > ~/.pyzor/servers", address)
	p.after("pyzor ping")
	for _, home := range homes {
		if err := p.place("pyzor", home+"/servers", address+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// dcc adds a note only, which has the commands: the client's map is binary, and cannot be written here.
func (p *Plan) dcc() error {
	host, port, err := net.SplitHostPort(p.door("dcc"))
	if err != nil {
		return err
	}
	p.note("DCC's clients have their servers in a map that only cdcc writes: "+
		`cdcc "new map; delete dcc1.dcc-servers.net; add %s,%s", and then cdcc info`, strings.Trim(host, "[]"), port)
	return nil
}
