package config

// Mistake is one that only a look outside the configuration can find.
type Mistake struct {
	Setting string // where: "aliases.2.to"; list items are counted from 0
	Text    string
}

// Examine is [Load], plus the mistakes that look finds in an otherwise valid configuration.
func Examine(sources Sources, look func(*Config) []Mistake) (Config, error) {
	l := readAll(sources)
	if len(l.problems) > 0 {
		return Config{}, l.problems
	}
	for _, m := range look(l.cfg) {
		l.fail(l.nearest(m.Setting), "%s", m.Text)
	}
	if len(l.problems) > 0 {
		return Config{}, l.problems
	}
	return *l.cfg, nil
}
