package setup

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/config"
)

const (
	rspamdPlugin  = "/etc/rspamd/plugins.d/bulkhead.lua"
	rspamdLocal   = "/etc/rspamd/rspamd.conf.local"
	rspamdBayes   = "/etc/rspamd/local.d/classifier-bayes.conf"
	rspamdGroups  = "/etc/rspamd/local.d/groups.conf"
	rspamdScore   = 8.0 // score of BULKHEAD_SPAM in the plugin
	rspamdSuspect = 3.0 // score of BULKHEAD_SUSPECTED there
	rspamdNearly  = 3.5 // score of BULKHEAD_UNANSWERED there, which comes with BULKHEAD_SUSPECTED
	rspamdAddsAt  = 6.0 // rspamd's own limit
	learnsThrough = `return function(task, is_spam, is_unlearn) return rspamd_plugins.bulkhead.learn(task, ` +
		`is_spam, is_unlearn) end`
)

var (
	ownSection     = regexp.MustCompile(`(?m)^[ \t]*bulkhead[ \t]*\{`)
	pluginPath     = regexp.MustCompile(`(?m)^[^#\n]*path[ \t]*=[^\n]*bulkhead\.lua`)
	learnCondition = regexp.MustCompile(`(?m)^[ \t]*learn_condition\b`)
	addHeader      = regexp.MustCompile(`(?m)^[ \t]*"?add_header"?[ \t]*[=:]?[ \t]*([0-9]+(?:\.[0-9]+)?)`)
	rejects        = regexp.MustCompile(`(?m)^[ \t]*"?reject"?[ \t]*[=:]?[ \t]*([0-9]+(?:\.[0-9]+)?)`)
)

// rspamd installs the plugin. The plugin's score is high enough, by the limits of this
// installation, to make mail junk that one trusted reporter has called spam.
func (p *Plan) rspamd() error {
	local, err := p.text(rspamdLocal)
	if err != nil {
		return err
	}
	p.after("rspamadm configtest", "systemctl restart rspamd")
	if ownSection.MatchString(local) {
		p.note("%s has a section bulkhead of its own, which stays as it is", rspamdLocal)
	} else {
		count := ""
		if counts, err := p.milterCounts(); err != nil {
			return err
		} else if counts {
			count = "  count = false; # the milter of the node counts what is delivered\n"
		}
		section := fmt.Sprintf("bulkhead {\n  server = %q;\n%s}\n", p.server(), count)
		if err := p.edit("rspamd", rspamdLocal, func(text string) string { return withBlock(text, section) }); err != nil {
			return err
		}
	}
	if !pluginPath.MatchString(local) {
		if err := p.plugin("rspamd", rspamdPlugin, "rspamd/bulkhead.lua"); err != nil {
			return err
		}
	}
	if err := p.rspamdLearning(); err != nil {
		return err
	}
	if err := p.rspamdScores(); err != nil {
		return err
	}
	return p.rspamdTwice()
}

// rspamdLearning turns messages that rspamc learns into votes.
func (p *Plan) rspamdLearning() error {
	bayes, err := p.text(rspamdBayes)
	if err != nil {
		return err
	}
	if learnCondition.MatchString(bayes) {
		if !strings.Contains(bayes, "rspamd_plugins.bulkhead") {
			p.note(
				"%s has a learn_condition of its own: what rspamc learns is no vote until it calls rspamd_plugins.bulkhead.learn",
				rspamdBayes)
		}
		return nil
	}
	line := "learn_condition = '" + learnsThrough + "';\n"
	return p.edit("rspamd", rspamdBayes, func(text string) string { return withBlock(text, line) })
}

// rspamdScores raises the scores if this installation's limit for junk is above them.
func (p *Plan) rspamdScores() error {
	junk, refuse := rspamdAddsAt, 15.0
	for _, name := range []string{"/etc/rspamd/local.d/actions.conf", "/etc/rspamd/override.d/actions.conf"} {
		text, err := p.text(name)
		if err != nil {
			return err
		}
		junk, refuse = lastNumber(addHeader, text, junk), lastNumber(rejects, text, refuse)
	}
	groups, err := p.text(rspamdGroups)
	if err != nil {
		return err
	}
	if strings.Contains(groups, "BULKHEAD_SPAM") {
		p.note("%s sets the score of BULKHEAD_SPAM, which stays as it is; junk begins at %g", rspamdGroups, junk)
		return nil
	}
	score, lines := rspamdScore, ""
	if junk > rspamdScore {
		score = junk + 0.5
		lines += fmt.Sprintf("    \"BULKHEAD_SPAM\" { weight = %g; description = \"bulkhead: reported as spam\"; }\n", score)
	}
	if junk > rspamdSuspect+rspamdNearly {
		lines += fmt.Sprintf("    \"BULKHEAD_UNANSWERED\" { weight = %.4g; description = \"bulkhead: nearly a reported "+
			"mail, and SPF and DKIM name no sender\"; }\n", aboveJunk(junk, refuse)-rspamdSuspect)
	}
	if lines != "" {
		lines = fmt.Sprintf("# Junk begins at %g here.\ngroup \"bulkhead\" {\n  symbols = {\n%s  }\n}\n", junk, lines)
	}
	if score >= refuse {
		p.note("rspamd refuses mail at %g here: BULKHEAD_SPAM, %g, does so alone", refuse, score)
	}
	return p.edit("rspamd", rspamdGroups, func(text string) string {
		if lines == "" && text == "" {
			return text
		}
		return withBlock(text, lines)
	})
}

// aboveJunk returns a score for suspected mail: half a point above the limit for junk, and below the
// limit at which mail is refused.
func aboveJunk(junk, refuse float64) float64 {
	if refuse <= junk {
		return junk
	}
	return min(junk+0.5, (junk+refuse)/2)
}

// rspamdTwice notes which other modules would score the same report again.
func (p *Plan) rspamdTwice() error {
	for _, m := range []struct{ file, door string }{
		{"fuzzy_check.conf", "fuzzy"}, {"dcc.conf", "dccifd"}, {"external_services.conf", "pyzor_helper"},
		{"external_services.conf", "razor_helper"},
	} {
		text, err := p.text("/etc/rspamd/local.d/" + m.file)
		if err != nil {
			return err
		}
		address := config.Reachable(p.listens[m.door])
		if address == "" {
			continue
		}
		_, port, _ := strings.Cut(address, ":")
		if strings.Contains(text, address) || strings.Contains(text, "localhost:"+port) {
			p.note("local.d/%s asks the node as well (%s): one report then scores twice; take it out", m.file, m.door)
		}
	}
	return nil
}

// lastNumber returns the number in the last match of a pattern, or otherwise.
func lastNumber(pattern *regexp.Regexp, text string, otherwise float64) float64 {
	all := pattern.FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return otherwise
	}
	if v, err := strconv.ParseFloat(all[len(all)-1][1], 64); err == nil {
		return v
	}
	return otherwise
}
