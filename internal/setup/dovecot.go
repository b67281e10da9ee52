package setup

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/plugins"
)

const (
	dovecotConf   = "/etc/dovecot/dovecot.conf"
	dovecotOurs   = "/etc/dovecot/conf.d/95-bulkhead.conf"
	dovecotSieve  = "/etc/dovecot/bulkhead"
	dovecotMailed = "/etc/dovecot/bulkhead/pipe"
	// packageScripts is where packages put the scripts for Dovecot.
	packageScripts = "/usr/share/bulkhead/dovecot"
)

// dovecot turns moves of mail into and out of junk folders into votes by the owner of the mailbox,
// and files mail that arrives marked as spam in the junk folder.
func (p *Plan) dovecot() error {
	d, err := p.readDovecot()
	if err != nil {
		return err
	}
	if d.version4 {
		p.note("Dovecot 2.4 has another form of configuration, which setup does not write: copy %s/dovecot-2.4.conf "+
			"to %s, reload Dovecot, and run sievec %[1]s. The scripts that it names are beside it", packageScripts, dovecotOurs)
		return nil
	}
	if !p.tree.exists("/usr/lib/dovecot/modules/lib95_imap_sieve_plugin.so",
		"/usr/lib64/dovecot/lib95_imap_sieve_plugin.so", "/usr/lib/dovecot/lib95_imap_sieve_plugin.so") {
		p.note("Dovecot has no Sieve for IMAP here: install it (Debian: dovecot-sieve), and run setup again. Its scripts "+
			"are in %s", packageScripts)
		return nil
	}
	pipes := d.last("sieve_pipe_bin_dir")
	if pipes == "" {
		pipes = dovecotMailed
	}
	if err := p.sieveScripts(pipes, d.junk); err != nil {
		return err
	}
	if limit := d.processLimit(); limit != "" {
		p.note("service imap has vsz_limit = %s, which stays as it is: below 1G no vote can be cast from it", limit)
	}
	lines := d.settings(pipes)
	// sievec gets its settings from the running Dovecot, which knows the extensions only after the
	// reload.
	p.after("doveconf -n", "systemctl reload dovecot", "sievec "+dovecotSieve)
	if d.includes {
		return p.place("dovecot", dovecotOurs, lines)
	}
	return p.edit("dovecot", dovecotConf, func(text string) string { return withBlock(text, lines) })
}

// sieveScripts plans the scripts of package plugins, for the site's mailbox for junk, its node and its
// program.
func (p *Plan) sieveScripts(pipes, junk string) error {
	for _, name := range []string{"spam.sieve", "ham.sieve", "arrived.sieve"} {
		text, err := fs.ReadFile(plugins.Files, "dovecot/"+name)
		if err != nil {
			return err
		}
		script := strings.NewReplacer(`"Junk"`, sieveString(junk), " Junk", " "+junk).Replace(string(text))
		if err := p.place("dovecot", path.Join(dovecotSieve, name), script); err != nil {
			return err
		}
	}
	text, err := fs.ReadFile(plugins.Files, "dovecot/bulkhead-vote")
	if err != nil {
		return err
	}
	vote := strings.Replace(string(text), "/usr/bin/bulkhead report", p.binary()+" report --server "+p.server(), 1)
	return p.editMode("dovecot", path.Join(pipes, "bulkhead-vote"), 0o755, func(string) string { return vote })
}

// binary returns the path of this program on the machine that is set up.
func (p *Plan) binary() string {
	const local = "/usr/local/bin/bulkhead"
	if !p.tree.exists("/usr/bin/bulkhead") && p.tree.exists(local) {
		return local
	}
	return "/usr/bin/bulkhead"
}

func sieveString(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// A dovecotConfig holds the settings that the site already has.
type dovecotConfig struct {
	values   []dovecotValue
	junk     string // the mailbox for junk
	includes bool   // includes conf.d/*.conf
	version4 bool

	everybodys bool // every user has the mailbox junk
	mailbox    struct {
		name       string // file being read
		auto, junk bool
	}
}

// A dovecotValue is a setting and the blocks around it: "protocol imap", "plugin".
type dovecotValue struct{ block, name, value string }

var (
	includesConfD = regexp.MustCompile(`(?m)^[ \t]*!include(?:_try)?[ \t]+(?:/etc/dovecot/)?conf\.d/\*\.conf`)
	mailboxBlock  = regexp.MustCompile(`^mailbox[ \t]+(?:"([^"]*)"|(\S+))`)
)

func (p *Plan) readDovecot() (*dovecotConfig, error) {
	text, err := p.text(dovecotConf)
	if err != nil {
		return nil, err
	}
	d := &dovecotConfig{junk: "Junk", includes: includesConfD.MatchString(text)}
	names := []string{dovecotConf}
	if d.includes {
		for _, name := range p.tree.list("/etc/dovecot/conf.d") {
			if strings.HasSuffix(name, ".conf") && name != path.Base(dovecotOurs) {
				names = append(names, "/etc/dovecot/conf.d/"+name)
			}
		}
	}
	if text, err = p.texts(names); err != nil {
		return nil, err
	}
	d.parse(text)
	return d, nil
}

// parse reads the relevant settings of a file, and the blocks around them.
func (d *dovecotConfig) parse(text string) {
	var blocks []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		switch {
		case strings.HasSuffix(line, "{"):
			blocks = append(blocks, strings.TrimSpace(strings.TrimSuffix(line, "{")))
		case strings.HasPrefix(line, "}"):
			blocks = blocks[:max(0, len(blocks)-1)]
		default:
			name, value, ok := strings.Cut(line, "=")
			if !ok {
				continue
			}
			v := dovecotValue{strings.Join(blocks, "/"), strings.TrimSpace(name), strings.TrimSpace(value)}
			d.values = append(d.values, v)
			if v.name == "dovecot_config_version" {
				d.version4 = true
			}
			d.noteMailbox(blocks, v)
		}
	}
}

// noteMailbox finds the mailbox for junk: a mailbox that every user has ("auto"), or else the last
// one with this use.
func (d *dovecotConfig) noteMailbox(blocks []string, v dovecotValue) {
	if len(blocks) == 0 {
		return
	}
	m := mailboxBlock.FindStringSubmatch(blocks[len(blocks)-1])
	if m == nil {
		return
	}
	if name := m[1] + m[2]; name != d.mailbox.name {
		d.mailbox.name, d.mailbox.auto, d.mailbox.junk = name, false, false
	}
	d.mailbox.auto = d.mailbox.auto || v.name == "auto" && v.value != "no"
	d.mailbox.junk = d.mailbox.junk || v.name == "special_use" && strings.Contains(v.value, `\Junk`)
	if d.mailbox.junk && (d.mailbox.auto || !d.everybodys) {
		d.junk, d.everybodys = d.mailbox.name, d.mailbox.auto
	}
}

// last returns the last value of a setting of plugins, "" for none.
func (d *dovecotConfig) last(name string) (value string) {
	for _, v := range d.values {
		if v.name == name && v.block == "plugin" {
			value = v.value
		}
	}
	return value
}

// votesIn is the address space that an IMAP process needs to vote. A Go program reserves 600 MB at
// its start.
const votesIn = "2G"

// processLimit returns the site's own limit of address space for an IMAP process, "" for none.
func (d *dovecotConfig) processLimit() (value string) {
	for _, v := range d.values {
		if v.name == "vsz_limit" && v.block == "service imap" {
			value = v.value
		}
	}
	return value
}

// loads reports whether a protocol already loads a mail plugin.
func (d *dovecotConfig) loads(protocol, plugin string) bool {
	return slices.ContainsFunc(d.values, func(v dovecotValue) bool {
		return v.name == "mail_plugins" && (v.block == "" || v.block == "protocol "+protocol) &&
			slices.Contains(strings.Fields(v.value), plugin)
	})
}

// free returns the first unused number in a series of setting names.
func (d *dovecotConfig) free(pattern string) int {
	first := 1
	for _, v := range d.values {
		for i := range 64 {
			if strings.HasPrefix(v.name, fmt.Sprintf(pattern, i)) && i >= first {
				first = i + 1
			}
		}
	}
	return first
}

// settings returns the settings for Dovecot. They extend the settings that the site has.
func (d *dovecotConfig) settings(pipes string) string {
	var b strings.Builder
	b.WriteString("# Written by \"bulkhead setup\".\n")
	for _, one := range []struct{ protocol, plugin string }{{"imap", "imap_sieve"}, {"lmtp", "sieve"}, {"lda", "sieve"}} {
		if !d.loads(one.protocol, one.plugin) {
			fmt.Fprintf(&b, "protocol %s {\n  mail_plugins = $mail_plugins %s\n}\n", one.protocol, one.plugin)
		}
	}
	if d.processLimit() == "" {
		// A child of the IMAP process casts the vote, and inherits its limit.
		b.WriteString(
			"# The program that votes reserves more address space than Dovecot's 256 MB.\nservice imap {\n  vsz_limit = " +
				votesIn + "\n}\n")
	}
	plugins := strings.Fields(d.last("sieve_plugins"))
	for _, one := range []string{"sieve_imapsieve", "sieve_extprograms"} {
		if !slices.Contains(plugins, one) {
			plugins = append(plugins, one)
		}
	}
	extensions := strings.Fields(d.last("sieve_global_extensions"))
	if one := "+vnd.dovecot.pipe"; !slices.Contains(extensions, one) {
		extensions = append(extensions, one)
	}
	// imapsieve stops at the first number that is missing.
	n := d.free("imapsieve_mailbox%d_")
	before := "sieve_before"
	if k := d.free("sieve_before%d"); k > 1 {
		before += strconv.Itoa(k)
	} else if d.last("sieve_before") != "" {
		before += "2"
	}
	fmt.Fprintf(&b, `plugin {
  sieve_plugins = %[1]s
  sieve_global_extensions = %[2]s
  sieve_pipe_bin_dir = %[3]s
  %[4]s = %[5]s/arrived.sieve
  imapsieve_mailbox%[6]d_name = %[8]s
  imapsieve_mailbox%[6]d_causes = COPY APPEND
  imapsieve_mailbox%[6]d_before = file:%[5]s/spam.sieve
  imapsieve_mailbox%[7]d_name = *
  imapsieve_mailbox%[7]d_from = %[8]s
  imapsieve_mailbox%[7]d_causes = COPY
  imapsieve_mailbox%[7]d_before = file:%[5]s/ham.sieve
}
`, strings.Join(plugins, " "), strings.Join(extensions, " "), pipes, before, dovecotSieve, n, n+1, d.junk)
	return b.String()
}
