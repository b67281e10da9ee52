//go:build interop

package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/nodetest"
)

// recipe returns the indented lines of a chapter of docs/setup.md, block by block.
func recipe(t *testing.T, chapter string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/setup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text1, found := strings.Cut(string(text), "\n## "+chapter+"\n")
	if !found {
		t.Fatalf("docs/setup.md has no chapter %s", chapter)
	}
	text1, _, _ = strings.Cut(text1, "\n## ")
	block := ""
	for line := range strings.Lines(text1 + "\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			block += code
		} else if block != "" {
			blocks, block = append(blocks, block), ""
		}
	}
	return blocks
}

// TestMailcowRecipe does what docs/setup.md says to do to mailcow, to a rspamd whose local.d
// has what mailcow puts there that matters: where junk begins, and a classifier with a
// condition of its own. mailcow itself is not run.
func TestMailcowRecipe(t *testing.T) {
	nodetest.NeedUsers(t)
	m := newMachine(t)
	m.write("/etc/rspamd/local.d/actions.conf", "reject = 15;\nadd_header = 8;\ngreylist = 7;\n")
	const condition = "learn_condition = 'return require(\"lua_bayes_learn\").can_learn';"
	m.write("/etc/rspamd/local.d/statistic.conf", "classifier \"bayes\" {\n  "+condition+"\n  tokenizer { name = \"osb\"; }\n  backend = \"redis\";\n"+
		"  statfile { symbol = \"BAYES_HAM\"; spam = false; }\n  statfile { symbol = \"BAYES_SPAM\"; spam = true; }\n}\n")
	m.write("/etc/rspamd/plugins.d/README.md", "where modules are copied to\n")
	m.write("/etc/rspamd/rspamd.conf.local", "# rspamd.conf.local\n")

	blocks := recipe(t, "mailcow")
	if len(blocks) != 2 || !strings.Contains(blocks[0], "docker compose restart rspamd-mailcow\n") {
		t.Fatalf("the recipe is %q", blocks)
	}
	plugins, err := filepath.Abs("../../plugins")
	if err != nil {
		t.Fatal(err)
	}
	script := strings.NewReplacer("/usr/share/bulkhead/plugins", plugins, "data/conf/rspamd", m.root+"/etc/rspamd", "docker compose restart rspamd-mailcow\n", "").Replace(blocks[0])
	if code, out := nodetest.Command(t, script, "sh", "-e"); code != 0 {
		t.Fatalf("%s: exit %d\n%s", script, code, out)
	}
	m.write("/etc/rspamd/local.d/groups.conf", blocks[1])
	blocks = nil
	for _, b := range recipeOfPlugins(t) {
		if strings.HasPrefix(b, "learn_condition") {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) != 1 {
		t.Fatalf("docs/plugins.md has %d lines for learn_condition", len(blocks))
	}
	at := filepath.Join(m.root, "etc/rspamd/local.d/statistic.conf")
	text, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	m.write("/etc/rspamd/local.d/statistic.conf", strings.Replace(string(text), condition, blocks[0], 1))

	m.must("rspamadm configtest 2>&1", "syntax OK")
	m.must("rspamadm configdump bulkhead 2>&1", "http://172.22.1.1:8420")
	m.must("rspamadm configdump classifier 2>&1", "rspamd_plugins.bulkhead.learn")
	m.must("rspamadm configdump group 2>&1", "weight = 10")
}

// recipeOfPlugins returns the indented lines on rspamd in docs/plugins.md, line by line.
func recipeOfPlugins(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, code)
		}
	}
	return lines
}
