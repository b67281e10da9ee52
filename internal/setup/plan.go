package setup

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/plugins"
)

// Options are the settings of a plan.
type Options struct {
	// Root is the folder that stands for "/". Nothing outside it is touched.
	Root string
	// For names the programs to set up, see [Programs]; if it is empty, the programs found are set up.
	For []string
	// Config is the path of the node's configuration in the root. If it is empty, the path is
	// [DefaultConfig], and without such a file the node has its defaults.
	Config string
}

// DefaultConfig is where packages put the configuration.
const DefaultConfig = "/etc/bulkhead/bulkhead.toml"

// packageData is the data folder of a node that a service manager runs.
const packageData = "/var/lib/bulkhead"

// A Change is the change of one file.
type Change struct {
	Path    string // in the root
	Program string // program for which the change is made
	Old     string
	New     string
	Created bool // there is no such file yet
	Plugin  bool // the whole file is a plugin from this program

	was file
	is  file
}

// A Plan holds the programs found and the planned changes. The changes are not made yet.
type Plan struct {
	Found   []string // programs of [Programs] found
	For     []string // programs that the plan sets up
	Changes []Change
	After   []string // commands to run after the changes, in order
	Notes   []string // what the administrator should know or do
	// Keyed reports that the node has the key of a network, its own or one that it joined. Otherwise
	// its first start makes one.
	Keyed bool

	tree    *tree
	options Options
	// mustConfig is set if the user named the node's configuration, which must be there then.
	mustConfig bool
	config     *config.Config
	listens    map[string]string // addresses of doors by key, after the changes
}

// A program is a program that setup supports.
type program struct {
	name  string
	found func(t *tree) bool
	plan  func(p *Plan) error
	asked bool // set up only if named in [Options].For
}

// programs returns the programs in the order in which they are set up: first the programs that
// score whole mail, so that the others know that mail is already judged.
func programs() []program {
	return []program{
		{name: "rspamd", found: has("/etc/rspamd/rspamd.conf"), plan: (*Plan).rspamd},
		{name: "spamassassin", found: hasSpamAssassin, plan: (*Plan).spamassassin},
		{name: "amavis", found: hasAmavis, plan: (*Plan).amavis},
		{name: "postfix", found: has("/etc/postfix/main.cf"), plan: (*Plan).postfix},
		{name: "exim", found: has("/etc/exim4/exim4.conf.template", "/etc/exim4/conf.d/main"), plan: (*Plan).exim},
		{name: "dovecot", found: has("/etc/dovecot/dovecot.conf"), plan: (*Plan).dovecot},
		{name: "policy", found: none, plan: (*Plan).policy, asked: true},
		{name: "razor", found: has("/etc/razor/razor-agent.conf", "/usr/bin/razor-check"), plan: (*Plan).razor, asked: true},
		{name: "pyzor", found: has("/usr/bin/pyzor"), plan: (*Plan).pyzor, asked: true},
		{name: "dcc", found: has("/usr/bin/dccproc", "/var/dcc/map", "/usr/local/bin/dccproc"), plan: (*Plan).dcc,
			asked: true},
	}
}

func has(paths ...string) func(*tree) bool { return func(t *tree) bool { return t.exists(paths...) } }
func none(*tree) bool                      { return false }

// Programs returns the names that Options.For may have.
func Programs() (names []string) {
	for _, p := range programs() {
		names = append(names, p.name)
	}
	return names
}

// Look finds the programs below a root and makes a plan for them. It changes nothing. An error
// names the file that cannot be read or parsed. Call [Plan.Close] when done.
func Look(o Options) (*Plan, error) {
	for _, name := range o.For {
		if !slices.Contains(Programs(), name) {
			return nil, fmt.Errorf("setup: %.40q is none of %s", name, strings.Join(Programs(), ", "))
		}
	}
	named := o.Config != ""
	if !named {
		o.Config = DefaultConfig
	}
	t, err := openTree(o.Root)
	if err != nil {
		return nil, err
	}
	p := &Plan{tree: t, options: o, mustConfig: named}
	if err := p.look(); err != nil {
		t.close()
		return nil, err
	}
	return p, nil
}

func (p *Plan) look() error {
	if err := p.readConfig(); err != nil {
		return err
	}
	data := p.config.Node.Data
	if data == "" {
		data = packageData
	}
	p.Keyed = p.tree.exists(path.Join(data, "network.key"))
	all := programs()
	for _, one := range all {
		if one.found(p.tree) {
			p.Found = append(p.Found, one.name)
		}
	}
	for _, one := range all {
		named := slices.Contains(p.options.For, one.name)
		found := slices.Contains(p.Found, one.name)
		switch {
		case named && !found && one.name != "policy":
			return fmt.Errorf("setup: there is no %s below %s", one.name, p.options.Root)
		case named, found && !one.asked && len(p.options.For) == 0:
			p.For = append(p.For, one.name)
		}
	}
	for _, one := range all {
		if slices.Contains(p.For, one.name) {
			if err := one.plan(p); err != nil {
				return err
			}
		}
	}
	return p.planDoors()
}

// Close releases the root.
func (p *Plan) Close() { p.tree.close() }

// does reports whether the plan sets a program up.
func (p *Plan) does(name string) bool { return slices.Contains(p.For, name) }

func (p *Plan) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(p.Notes, n) {
		p.Notes = append(p.Notes, n)
	}
}

func (p *Plan) after(commands ...string) {
	for _, c := range commands {
		if !slices.Contains(p.After, c) {
			p.After = append(p.After, c)
		}
	}
}

// edit notes the change of a file, unless the new text equals the old.
func (p *Plan) edit(program, name string, change func(text string) string) error {
	return p.editMode(program, name, 0o644, change)
}

func (p *Plan) editMode(program, name string, mode fs.FileMode, change func(text string) string) error {
	for i, c := range p.Changes {
		if c.Path == name { // a second change of one file
			p.Changes[i].is.text = change(c.New)
			p.Changes[i].New = p.Changes[i].is.text
			return nil
		}
	}
	was, err := p.tree.read(name)
	if err != nil {
		return err
	}
	is := was
	if !was.exists {
		is.mode = mode
	}
	if is.text = change(was.text); is.text == was.text {
		return nil
	}
	is.exists = true
	p.Changes = append(p.Changes, Change{Path: name, Program: program, Old: was.text, New: is.text, Created: !was.exists,
		was: was, is: is})
	return nil
}

// place plans a file of setup's own.
func (p *Plan) place(program, name, text string) error {
	return p.edit(program, name, func(string) string { return text })
}

// plugin plans a plugin file from this program.
func (p *Plan) plugin(program, name, source string) error {
	text, err := fs.ReadFile(plugins.Files, source)
	if err != nil {
		return err
	}
	if err := p.place(program, name, string(text)); err != nil {
		return err
	}
	if n := len(p.Changes); n > 0 && p.Changes[n-1].Path == name {
		p.Changes[n-1].Plugin = true
	}
	return nil
}

// text returns the part of a file that is not from setup, "" if there is no file.
func (p *Plan) text(name string) (string, error) {
	f, err := p.tree.read(name)
	return withoutBlock(f.text), err
}

// texts returns the parts of several files that are not from setup, one after the other.
func (p *Plan) texts(names []string) (string, error) {
	var all strings.Builder
	for _, name := range names {
		text, err := p.text(name)
		if err != nil {
			return "", err
		}
		all.WriteString(text + "\n")
	}
	return all.String(), nil
}

// WriteDiff writes all changes, see [Change.Diff].
func (p *Plan) WriteDiff(w io.Writer) error {
	for i := range p.Changes {
		if _, err := w.Write(p.Changes[i].Diff()); err != nil {
			return err
		}
	}
	return nil
}

// Diff returns a change as a unified diff. For a new plugin it returns only the name, because the
// hundreds of lines come with this program.
func (c *Change) Diff() []byte {
	old := c.Path
	if c.Created {
		old = "/dev/null"
	}
	if c.Plugin && c.Created {
		return fmt.Appendf(nil, "new plugin %s (%d lines)\n", c.Path, strings.Count(c.New, "\n"))
	}
	return diff.Diff(old, []byte(c.Old), c.Path, []byte(c.New))
}
