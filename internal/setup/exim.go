package setup

import (
	"net"
	"regexp"
	"strings"
)

const (
	eximACL     = "/etc/exim4/bulkhead_data_acl"
	eximSplit   = "/etc/exim4/conf.d/main/000_bulkhead"
	eximUnsplit = "/etc/exim4/exim4.conf.localmacros"
)

var (
	usesSplit   = regexp.MustCompile(`(?m)^[ \t]*dc_use_split_config=['"]?true`)
	dataACL     = regexp.MustCompile(`(?m)^[ \t]*CHECK_DATA_LOCAL_ACL_FILE[ \t]*=[ \t]*(\S+)`)
	bodyVisible = regexp.MustCompile(`(?m)^[ \t]*message_body_(visible|newlines)[ \t]*=?`)
)

// exim makes Exim ask about each message before it accepts it, over HTTP, in an ACL for which
// Debian's configuration has a place. The conditions malware and spam stay free for other uses.
func (p *Plan) exim() error {
	if scorer := p.scorer(); scorer != "" && len(p.options.For) == 0 && !p.tree.exists(eximACL) {
		p.note(
			"Exim stays as it is: where it asks %s about mail (the spam condition), that hands it to the node. --for "+
				"%s,exim has Exim ask the node itself", scorer, scorer)
		return nil
	}
	if p.tree.exists("/etc/exim4/exim4.conf") {
		p.note("Exim reads /etc/exim4/exim4.conf here, which setup does not change: docs/setup.md has the lines")
		return nil
	}
	if p.config.HTTP.TLSCert != "" {
		p.note("Exim stays as it is: it would have to ask the node over TLS")
		return nil
	}
	main, err := p.eximMain()
	if err != nil {
		return err
	}
	macros := ""
	others, err := p.eximOthers()
	if err != nil {
		return err
	}
	acl := eximACL
	if m := dataACL.FindStringSubmatch(others); m != nil {
		acl = m[1] // the site's own ACL
	} else {
		macros = "CHECK_DATA_LOCAL_ACL_FILE = " + eximACL + "\n"
	}
	if bodyVisible.MatchString(others) {
		p.note(
			"Exim's message_body_visible or message_body_newlines is set here: bulkhead needs 256K and true, or it " +
				"sees mail in part")
	} else {
		macros += "# So much of a mail is shown to the node, as it came.\nmessage_body_visible = 256K\n" +
			"message_body_newlines = true\n"
	}
	p.after("update-exim4.conf", "exim4 -bV", "systemctl reload exim4")
	if err := p.edit("exim", main, func(text string) string { return withBlock(text, macros) }); err != nil {
		return err
	}
	return p.edit("exim", acl, func(text string) string { return withBlock(text, p.eximRule()) })
}

// eximMain returns the file for macros and options.
func (p *Plan) eximMain() (string, error) {
	text, err := p.text("/etc/exim4/update-exim4.conf.conf")
	if usesSplit.MatchString(text) {
		return eximSplit, err
	}
	return eximUnsplit, err
}

// eximOthers returns the options and macros that are not from setup.
func (p *Plan) eximOthers() (string, error) {
	names := []string{eximUnsplit, "/etc/exim4/exim4.conf.template"}
	for _, name := range p.tree.list("/etc/exim4/conf.d/main") {
		names = append(names, "/etc/exim4/conf.d/main/"+name)
	}
	return p.texts(names)
}

// eximRule returns a rule that asks about mail from other hosts. The text in the braces of
// ${readsocket} is already expanded, so a brace in a mail has no effect. Without shutdown=no, Exim
// would close its side of the connection, which servers take for a disconnected client. If the node
// does not answer, there is no header.
func (p *Plan) eximRule() string {
	host, port, _ := net.SplitHostPort(p.door("http"))
	return `  warn  remove_header = X-Bulkhead
  warn  !authenticated = *
        !hosts    = : +relay_from_hosts
        condition = ${if <{$message_size}{250K}}
        set acl_m_bulkhead_mail = $message_headers_raw\n$message_body
        set acl_m_bulkhead = ${readsocket{inet:` + net.JoinHostPort(strings.Trim(host, "[]"), port) + `}\
{POST /v1/check?client=$sender_host_address HTTP/1.1\r\nHost: localhost\r\n` +
		`Connection: close\r\nContent-Type: message/rfc822\r\n` +
		`Content-Length: ${strlen:$acl_m_bulkhead_mail}\r\n\r\n$acl_m_bulkhead_mail}\
{5s:shutdown=no}{\n}{}}
        set acl_m_bulkhead = ${if match{$acl_m_bulkhead}{\N"class":"([a-z]+)"\N}{$1}{}}
        set acl_m_bulkhead_mail =
        condition = ${if def:acl_m_bulkhead}
        add_header = X-Bulkhead: $acl_m_bulkhead
`
}
