package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// maxFile is the largest configuration file that is read, in bytes.
const maxFile = 4 << 20

// An Error is one mistake in a configuration file.
type Error struct {
	Line   int    // line of the file, from 1; 0 if the key is absent from it
	Key    string // dotted key, for example "listen.pyzor"; "" if unknown
	Detail string // what is wrong, with the value and its limit
}

// Error returns for example `config: line 12: listen.pyzor: "24441" is not host:port`.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("config: ")
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	if e.Key != "" {
		fmt.Fprintf(&b, "%s: ", e.Key)
	}
	b.WriteString(e.Detail)
	return b.String()
}

// Load reads and validates the file at path; see [Parse].
func Load(path string) (*Config, error) {
	cfg, err := Inspect(path)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// Inspect is [Load] for a checker. If unknown keys are all that is wrong with the file, it
// returns the rest of the file beside the error, so that it can be checked, too.
func Inspect(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	cfg, err := inspect(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return cfg, err
}

// Parse reads a configuration file. Absent keys have the values of [Default], but an absent
// key of [listen] means that the door is off. The error joins an [*Error] for every mistake,
// in the order of the lines.
func Parse(data []byte) (*Config, error) {
	cfg, err := inspect(data)
	if err != nil {
		return nil, err
	}
	return cfg, nil
}

// inspect is Parse that returns a configuration beside an error about unknown keys only.
func inspect(data []byte) (*Config, error) {
	if len(data) > maxFile {
		return nil, &Error{Detail: fmt.Sprintf("file is longer than %d bytes", maxFile)}
	}
	cfg, err := decode(data)
	var missing *toml.StrictMissingError
	var mistyped []*Error
	for err != nil && !errors.As(err, &missing) {
		bad := positioned(err)
		if bad.Key == "" || len(mistyped) == maxMistyped {
			if len(mistyped) > 0 {
				return nil, joined(mistyped) // bad may come of what was left out
			}
			return nil, bad
		}
		// The decoder ends at a value of another type. The rest is read without it.
		mistyped = append(mistyped, bad)
		data = withoutLine(data, bad.Line)
		cfg, err = decode(data)
	}
	var unknown []*Error
	if missing != nil {
		for i := range missing.Errors {
			line, _ := missing.Errors[i].Position()
			key := missing.Errors[i].Key()
			unknown = append(unknown, &Error{Line: line, Key: strings.Join(key, "."), Detail: "unknown key" + meant(key)})
		}
		// The decoder has gone on after them: the rest of the file is in cfg.
	}
	wrong := slices.DeleteFunc(cfg.validate(keyLines(data)), func(e *Error) bool {
		return slices.ContainsFunc(mistyped, func(m *Error) bool { return m.Key == e.Key })
	})
	wrong = append(wrong, mistyped...)
	all := slices.Concat(unknown, wrong)
	if len(all) == 0 {
		return cfg, nil
	}
	slices.SortStableFunc(all, func(a, b *Error) int { return a.Line - b.Line })
	if len(wrong) > 0 {
		cfg = nil
	}
	return cfg, joined(all)
}

func joined(all []*Error) error {
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// maxMistyped is how many values of another type than their key has are told at once.
const maxMistyped = 32

// decode reads a document. Its error is a [toml.StrictMissingError] if unknown keys are all
// that is wrong with it.
func decode(data []byte) (*Config, error) {
	cfg := Default()
	cfg.Listen = Listen{}
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return cfg, dec.Decode(cfg)
}

// withoutLine returns data with a line, from 1, that is empty.
func withoutLine(data []byte, line int) []byte {
	lines := bytes.Split(data, []byte("\n"))
	if line >= 1 && line <= len(lines) {
		lines[line-1] = nil
	}
	return bytes.Join(lines, []byte("\n"))
}

// positioned turns an error of the TOML library into an [*Error].
func positioned(err error) *Error {
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		return &Error{Line: line, Key: strings.Join(bad.Key(), "."), Detail: retyped(strings.TrimPrefix(bad.Error(), "toml: "))}
	}
	return &Error{Detail: err.Error()}
}

// retyped says for people what the TOML library says of a value of another type than its
// key has.
func retyped(detail string) string {
	what, ok := strings.CutPrefix(detail, "cannot decode TOML ")
	is, field, _ := strings.Cut(what, " into ")
	_, typ, found := strings.Cut(field, " of type ")
	if !ok || !found {
		return detail
	}
	want := typ
	switch {
	case typ == "string":
		want = "a text in quotes"
	case typ == "bool":
		want = "true or false"
	case typ == "config.Duration":
		want = `a time in quotes, such as "15m"`
	case strings.HasPrefix(typ, "[]"):
		want = "a list in brackets"
	case strings.HasPrefix(typ, "int"), strings.HasPrefix(typ, "uint"):
		want = "a whole number"
	case strings.HasPrefix(typ, "float"):
		want = "a number"
	}
	return fmt.Sprintf("want %s, have a TOML %s", want, is)
}

// keyLines returns the line of every key and table of a document that the decoder has
// accepted, for errors about values that are well-formed TOML but out of range. Keys inside
// inline tables have the line of the table. The second [[ratelimit]] is ratelimit[1], and its
// keys are for example ratelimit[1].limit.
func keyLines(data []byte) map[string]int {
	lines := make(map[string]int)
	tables := make(map[string]int) // how many of each list have been seen
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		var path []string
		line := 0
		for it := e.Key(); it.Next(); {
			if line == 0 {
				line = p.Shape(it.Node().Raw).Start.Line
			}
			path = append(path, string(it.Node().Data))
		}
		key := strings.Join(path, ".")
		switch e.Kind {
		case unstable.Table:
			table = key + "."
			lines[key] = line
		case unstable.ArrayTable:
			if lines[key] == 0 {
				lines[key] = line
			}
			one := nth(key, tables[key])
			tables[key]++
			table = one + "."
			lines[one] = line
		case unstable.KeyValue:
			lines[table+key] = line
		}
	}
	return lines
}

// nth returns the name of table i, from 0, of a list of tables.
func nth(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }
