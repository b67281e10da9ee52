package config

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// A Door is one key of [listen].
type Door struct {
	Key     string // for example "pyzor"
	Address string // "" if the door is off
}

// Doors returns every front door, including those that are off, in the order of the struct.
func (l *Listen) Doors() []Door {
	var doors []Door
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		doors = append(doors, Door{Key: v.Type().Field(i).Tag.Get("toml"), Address: v.Field(i).String()})
	}
	return doors
}

// Changed returns the dotted keys whose values differ between two configurations: keys that a
// running node can apply, and keys that need a restart. A section that is a list of tables is one
// key.
func Changed(was, is *Config) (reloadable, restart []string) {
	a, b := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	compare := func(name string, reload bool, x, y reflect.Value) {
		switch {
		case reflect.DeepEqual(x.Interface(), y.Interface()):
		case reload:
			reloadable = append(reloadable, name)
		default:
			restart = append(restart, name)
		}
	}
	for i := range a.NumField() {
		section := a.Type().Field(i)
		name := section.Tag.Get("toml")
		if section.Type.Kind() == reflect.Slice {
			compare(name, reloads(section), a.Field(i), b.Field(i))
			continue
		}
		for j := range section.Type.NumField() {
			key := section.Type.Field(j)
			compare(name+"."+key.Tag.Get("toml"), reloads(key), a.Field(i).Field(j), b.Field(i).Field(j))
		}
	}
	return reloadable, restart
}

func reloads(f reflect.StructField) bool { return f.Tag.Get("reload") == "yes" }

// Reloaded returns the configuration of a node that runs with one configuration and applies the
// reloadable keys of another; see [Changed].
func Reloaded(running, file *Config) *Config {
	out := *running
	a, b := reflect.ValueOf(&out).Elem(), reflect.ValueOf(file).Elem()
	for i := range a.NumField() {
		section := a.Type().Field(i)
		if section.Type.Kind() == reflect.Slice {
			if reloads(section) {
				a.Field(i).Set(b.Field(i))
			}
			continue
		}
		for j := range section.Type.NumField() {
			if reloads(section.Type.Field(j)) {
				a.Field(i).Field(j).Set(b.Field(i).Field(j))
			}
		}
	}
	return &out
}

// WriteReference writes every section and key with its meaning and default, as a file that
// [Parse] accepts and that means the same as [Default]. Lists of tables, which are empty by
// default, are shown as comments.
func WriteReference(w io.Writer) error {
	r := &reference{}
	r.b.WriteString("# Every key of bulkhead's configuration with its default.\n" +
		"# Keys marked (reload) take effect on SIGHUP; the others need a restart.\n")
	v := reflect.ValueOf(Default()).Elem()
	for i := range v.NumField() {
		section := v.Type().Field(i)
		r.b.WriteByte('\n')
		if section.Type.Kind() == reflect.Slice {
			r.table("", section)
			continue
		}
		r.section(section, v.Field(i))
	}
	if r.err != nil {
		return fmt.Errorf("config: %w", r.err)
	}
	_, err := w.Write(r.b.Bytes())
	return err
}

// A reference writes the text of WriteReference.
type reference struct {
	b   bytes.Buffer
	err error
}

func (r *reference) section(section reflect.StructField, v reflect.Value) {
	name := section.Tag.Get("toml")
	r.comment("# ", section.Tag.Get("doc"))
	fmt.Fprintf(&r.b, "[%s]\n", name)
	var tables []reflect.StructField
	for j := range section.Type.NumField() {
		key := section.Type.Field(j)
		if isTables(key) {
			tables = append(tables, key)
			continue
		}
		r.key("# ", "", key, v.Field(j))
	}
	// Tables come last: keys after a table would belong to it.
	for _, key := range tables {
		r.b.WriteByte('\n')
		r.table(name+".", key)
	}
}

// table writes a list of tables as a comment with one table in it.
func (r *reference) table(prefix string, f reflect.StructField) {
	r.comment("# ", doc(f))
	fmt.Fprintf(&r.b, "#\n# [[%s%s]]\n", prefix, f.Tag.Get("toml"))
	zero := reflect.New(f.Type.Elem()).Elem()
	for j := range zero.NumField() {
		r.key("# # ", "# ", zero.Type().Field(j), zero.Field(j))
	}
}

// key writes one key with its value, below a comment with its meaning.
func (r *reference) key(comment, indent string, f reflect.StructField, v reflect.Value) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		v = reflect.MakeSlice(v.Type(), 0, 0)
	}
	r.comment(comment, doc(f))
	line, err := toml.Marshal(map[string]any{f.Tag.Get("toml"): v.Interface()})
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", f.Name, err)
	}
	r.b.WriteString(indent)
	r.b.Write(line)
}

func doc(f reflect.StructField) string {
	if reloads(f) {
		return f.Tag.Get("doc") + " (reload)"
	}
	return f.Tag.Get("doc")
}

func isTables(f reflect.StructField) bool {
	return f.Type.Kind() == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct
}

func (r *reference) comment(prefix, text string) {
	for line := range strings.Lines(text) {
		r.b.WriteString(prefix + strings.TrimSuffix(line, "\n") + "\n")
	}
}
