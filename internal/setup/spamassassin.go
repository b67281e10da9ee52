package setup

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	spamScore    = 5.5 // score of BULKHEAD_SPAM in bulkhead.cf, and of both rules below together
	suspectScore = 2.5 // score of BULKHEAD_SUSPECTED there; BULKHEAD_UNANSWERED comes with it
	junkAt       = 5.0 // SpamAssassin's own required_score
)

// rulesFolders are the folders in which distributions keep the rules of a site.
var rulesFolders = []string{"/etc/spamassassin", "/etc/mail/spamassassin"}

// amavisFiles are the configuration files of Amavis, in the order in which it reads them.
var amavisFiles = []string{"/etc/amavisd.conf", "/etc/amavisd/amavisd.conf", "/etc/amavis/amavisd.conf"}

func hasSpamAssassin(t *tree) bool {
	for _, dir := range rulesFolders {
		if t.exists(dir+"/local.cf", dir+"/init.pre") {
			return true
		}
	}
	return false
}

func hasAmavis(t *tree) bool {
	return t.exists("/etc/amavis/conf.d") || t.exists(amavisFiles...)
}

var (
	requiredScore = regexp.MustCompile(`(?m)^[ \t]*required_(?:score|hits)[ \t]+([0-9]+(?:\.[0-9]+)?)`)
	tag2Level     = regexp.MustCompile(`(?m)^[ \t]*\$sa_tag2_level_deflt[ \t]*=[ \t]*([0-9]+(?:\.[0-9]+)?)`)
	killLevel     = regexp.MustCompile(`(?m)^[ \t]*\$sa_kill_level_deflt[ \t]*=[ \t]*([0-9]+(?:\.[0-9]+)?)`)
	localOnly     = regexp.MustCompile(`(?m)^[ \t]*\$sa_local_tests_only[ \t]*=[ \t]*1`)
	bypassSpam    = regexp.MustCompile(`(?m)^[ \t]*@bypass_spam_checks_maps[ \t]*=`)
	spamdLocal    = regexp.MustCompile(`(?m)^[ \t]*OPTIONS=.*[ "'](-L|--local)\b`)
	ownScore      = regexp.MustCompile(`(?m)^[ \t]*score[ \t]+BULKHEAD_SPAM\b`)
)

// spamassassin installs the plugin for spamd and spamassassin.
func (p *Plan) spamassassin() error {
	for _, name := range []string{"/etc/default/spamd", "/etc/default/spamassassin"} {
		text, err := p.text(name)
		if err != nil {
			return err
		}
		if spamdLocal.MatchString(text) {
			p.note("%s has spamd leave out what asks the network (-L): it will not ask the node until that goes", name)
		}
	}
	p.after("spamassassin --lint", "systemctl restart spamd || systemctl restart spamassassin")
	return p.rules("spamassassin")
}

// amavis installs the plugin for Amavis, which runs SpamAssassin's rules itself.
func (p *Plan) amavis() error {
	text, err := p.amavisText()
	if err != nil {
		return err
	}
	if p.tree.exists("/etc/amavis/conf.d") && !bypassSpam.MatchString(text) {
		p.note("Amavis judges no spam until @bypass_spam_checks_maps is set, in /etc/amavis/conf.d/15-content_filter_mode")
	}
	if localOnly.MatchString(text) {
		p.note("Amavis leaves out what asks the network ($sa_local_tests_only = 1): it will not ask the node until that is 0")
	}
	p.after("spamassassin --lint", "systemctl restart amavis || systemctl restart amavisd")
	return p.rules("amavis")
}

// amavisText returns the site's configuration of Amavis.
func (p *Plan) amavisText() (string, error) {
	names := slices.Clone(amavisFiles)
	for _, name := range p.tree.list("/etc/amavis/conf.d") {
		names = append(names, "/etc/amavis/conf.d/"+name)
	}
	return p.texts(names)
}

// rules installs plugin, rules and settings. A site's local.cf is read after them and can override
// them.
func (p *Plan) rules(name string) error {
	dir := ""
	for _, d := range rulesFolders {
		if dir == "" && p.tree.exists(d) {
			dir = d
		}
	}
	if dir == "" {
		return fmt.Errorf("setup: %s: none of %s is there", name, strings.Join(rulesFolders, ", "))
	}
	for _, file := range []string{"Bulkhead.pm", "bulkhead.cf"} {
		if err := p.plugin(name, path.Join(dir, file), "spamassassin/"+file); err != nil {
			return err
		}
	}
	site, junk, refuse, err := p.siteRules(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# Written by \"bulkhead setup\". local.cf is read later, and overrides this.\n" +
		"ifplugin Mail::SpamAssassin::Plugin::Bulkhead\n")
	fmt.Fprintf(&b, "bulkhead_server %s\n", p.server())
	if counts, err := p.milterCounts(); err != nil {
		return err
	} else if counts || p.does("rspamd") {
		b.WriteString("bulkhead_count 0   # another program counts what is delivered\n")
	}
	switch {
	case ownScore.MatchString(site):
		p.note("a score of BULKHEAD_SPAM in %s stays as it is; junk begins at %g", dir, junk)
	case junk >= spamScore:
		fmt.Fprintf(&b, "# Junk begins at %g here.\nscore BULKHEAD_SPAM %g\nscore BULKHEAD_UNANSWERED %.4g\n", junk, junk+0.5,
			aboveJunk(junk, refuse)-suspectScore)
	}
	b.WriteString("endif\n")
	return p.place(name, path.Join(dir, "bulkhead_local.cf"), b.String())
}

// siteRules returns the site's own rules, and the score at which mail is junk: SpamAssassin's, or
// Amavis's if that is higher. Mail is refused, or kept from its reader, from the score refuse on.
func (p *Plan) siteRules(dir string) (text string, junk, refuse float64, err error) {
	var names []string
	for _, name := range p.tree.list(dir) {
		if strings.HasSuffix(name, ".cf") && name != "bulkhead.cf" && name != "bulkhead_local.cf" {
			names = append(names, path.Join(dir, name))
		}
	}
	if text, err = p.texts(names); err != nil {
		return "", 0, 0, err
	}
	junk, refuse = lastNumber(requiredScore, text, junkAt), math.Inf(1)
	if p.does("amavis") {
		amavis, err := p.amavisText()
		if err != nil {
			return "", 0, 0, err
		}
		tag2 := lastNumber(tag2Level, amavis, 0)
		junk = max(junk, tag2)
		kill := lastNumber(killLevel, amavis, 0)
		if kill > 0 && kill <= max(spamScore, junk+0.5) && kill > tag2 {
			p.note("Amavis blocks mail at %g: BULKHEAD_SPAM does so alone", kill)
		}
		if kill > 0 {
			refuse = kill
		}
	}
	return text, junk, refuse, nil
}
