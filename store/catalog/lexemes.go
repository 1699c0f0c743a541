package catalog

import (
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// lexeme returns a term as stored in the database. It begins with the account's number, so that each posting list of the GIN index
// has documents of one account only.
func lexeme(account record.AccountNumber, term string) string {
	return lexemePrefix(account) + StoredTerm(term)
}

// lexemes joins the terms of a document, separated by lexemeEnd.
func lexemes(account record.AccountNumber, terms []string) string {
	var all strings.Builder
	prefix := lexemePrefix(account)
	for i, term := range terms {
		term = StoredTerm(term)
		if all.Len()+len(lexemeEnd)+len(prefix)+len(term) > maxLexemes {
			break
		}
		if i > 0 {
			all.WriteString(lexemeEnd)
		}
		all.WriteString(prefix)
		all.WriteString(term)
	}
	return all.String()
}

// lexemeEnd separates lexemes. It occurs in none.
const lexemeEnd = "\x1f"

// tsquery formats a condition as a tsquery; "" if nothing satisfies it.
func tsquery(account record.AccountNumber, c *lexical.Condition) string {
	switch {
	case c.Term != "":
		return quoteLexeme(lexeme(account, c.Term))
	case c.Prefix != "":
		return quoteLexeme(lexeme(account, c.Prefix)) + ":*"
	case c.Not != nil:
		if not := tsquery(account, c.Not); not != "" {
			return "!" + not
		}
		return ""
	}
	parts, sign := c.All, " & "
	if len(parts) == 0 {
		parts, sign = c.Any, " | "
	}
	var written []string
	for i := range parts {
		one := tsquery(account, &parts[i])
		switch {
		case one != "":
			written = append(written, one)
		case sign == " & " && parts[i].Not == nil: // the negation of an unsatisfiable condition is always true, and can be omitted
			return ""
		}
	}
	if len(written) == 0 {
		return ""
	}
	return "(" + strings.Join(written, sign) + ")"
}

func lexemePrefix(account record.AccountNumber) string {
	return strconv.FormatUint(uint64(account), 36) + ":"
}

// maxLexeme is the most bytes that a lexeme can have in Postgres, without its account.
const maxLexeme = 2000

// maxLexemes bounds the size of a document's lexemes. The limit of Postgres is a megabyte.
const maxLexemes = 900 << 10

var impossible = strings.NewReplacer("\x00", "\x1e", lexemeEnd, " ")

// StoredTerm returns a term without what text in Postgres cannot contain.
func StoredTerm(term string) string {
	term = strings.ToValidUTF8(term[:min(len(term), maxLexeme)], "")
	return impossible.Replace(term)
}

func quoteLexeme(lexeme string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(lexeme) + "'"
}
