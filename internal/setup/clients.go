package setup

import (
	"net"
	"net/netip"
	"regexp"
	"strings"
)

const razorAgent = "/etc/razor/razor-agent.conf"

var razorDiscovery = regexp.MustCompile(`(?m)^[ \t]*razordiscovery[ \t]*=[^\n]*`)

// ipv4 returns the address of a door for clients that understand no IPv6 address: the one of Razor connects by IPv4
// alone, and pyzor skips such a line and asks a public server. Without an IPv4 address it returns "", and adds a note.
func (p *Plan) ipv4(program, door string) string {
	host, port, err := net.SplitHostPort(p.door(door))
	if err != nil || !strings.Contains(host, ":") {
		return p.door(door)
	}
	if listen, err := netip.ParseAddrPort(p.listens[door]); err == nil && listen.Addr().IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", port) // such a socket takes both
	}
	p.note("%s stays as it is: its clients take no IPv6 address, and %s in [listen] is %q; choose an IPv4 address",
		program, door, p.listens[door])
	return ""
}

// razor makes Razor's clients discover the node.
func (p *Plan) razor() error {
	address := p.ipv4("razor", "razor2")
	if address == "" {
		return nil
	}
	line := "razordiscovery = " + address
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
	address := p.ipv4("pyzor", "pyzor")
	if address == "" {
		return nil
	}
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
