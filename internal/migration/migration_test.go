package migration_test

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/migration"
	"github.com/posthaste-dev/posthaste/internal/store"
)

func files(names ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for _, name := range names {
		out["migrations/"+name] = &fstest.MapFile{Data: []byte("-- " + name + "\n")}
	}
	return out
}

func TestReadRefusesGaps(t *testing.T) {
	for name, fs := range map[string]fstest.MapFS{
		"no file":    {},
		"gap":        files("0001_a.sql", "0003_b.sql"),
		"two of one": files("0001_a.sql", "0001_b.sql"),
		"no number":  files("a.sql"),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Read accepted the files")
				}
			}()
			migration.Read(fs)
		})
	}
}

func TestReadFindsExclusive(t *testing.T) {
	fs := files("0001_a.sql")
	fs["migrations/0002_b.sql"] = &fstest.MapFile{Data: []byte("-- Why.\n-- exclusive\ndrop table a;\n")}
	fs["migrations/0003_c.sql"] = &fstest.MapFile{Data: []byte("-- not -- exclusive\n")}
	got := migration.Read(fs)
	if got[0].Exclusive || !got[1].Exclusive || got[2].Exclusive {
		t.Errorf("exclusive: %v, %v, %v; want only the second", got[0].Exclusive, got[1].Exclusive, got[2].Exclusive)
	}
}

func TestPending(t *testing.T) {
	all := migration.Read(files("0001_a.sql", "0002_b.sql", "0003_c.sql"))
	recorded := func(n int) (out []migration.Applied) {
		for _, m := range all[:n] {
			out = append(out, migration.Applied{Name: m.Name, Sum: m.Sum()})
		}
		return out
	}
	for n := range len(all) + 1 {
		got, err := migration.Pending(all, recorded(n))
		if err != nil || len(got) != len(all)-n || n < len(all) && got[0].Name != all[n].Name {
			t.Errorf("%d applied: %v, %v", n, got, err)
		}
	}
	for name, applied := range map[string][]migration.Applied{
		"newer database": append(recorded(3), migration.Applied{Name: "0004_d", Sum: "ab"}),
		"other bytes":    {{Name: "0001_a", Sum: "ab"}},
		"other name":     {{Name: "0001_z", Sum: all[0].Sum()}},
		"hole":           recorded(3)[1:],
	} {
		_, err := migration.Pending(all, applied)
		if !errors.Is(err, store.ErrForeignSchema) {
			t.Errorf("%s: error %v, want ErrForeignSchema", name, err)
		}
		if e, ok := errors.AsType[*posthaste.Error](err); !ok || e.Hint == "" {
			t.Errorf("%s: error %v has no hint", name, err)
		}
	}
}
