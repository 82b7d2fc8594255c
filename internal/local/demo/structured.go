package demo

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// structuredMakers alternate between output that a pattern checks and output
// that a JSON schema checks, so each is half of the prompts.
var structuredMakers = []maker{
	isoDate, orderJSON, clockTime, contactJSON, orderNumber, eventJSON, hexColour, readingJSON,
}

// Kinds of structured prompts, in meta.kind.
const (
	kindPattern = "pattern"
	kindSchema  = "schema"
)

// exactly is a problem whose whole answer must be one text.
func exactly(question, answer string, steps ...string) problem {
	return problem{
		question: question,
		kind:     kindPattern,
		tests:    `^\s*` + regexp.QuoteMeta(answer) + `\s*$`,
		answer:   answer,
		steps:    steps,
	}
}

func isoDate(d *dice) problem {
	day := time.Date(d.between(1990, 2035), time.Month(d.between(1, 12)), d.between(1, 28), 0, 0, 0, 0, time.UTC)
	p := exactly(fmt.Sprintf("Write the date %s as an ISO 8601 calendar date. Reply with the date alone.", day.Format("2 January 2006")),
		day.Format("2006-01-02"),
		"ISO 8601 writes year, month and day with dashes.",
		fmt.Sprintf("%s is month %02d.", day.Format("January"), int(day.Month())))
	p.addSlip(day.Format("02-01-2006"), "The parts are joined by dashes.")
	p.addSlip("The date is "+day.Format("2006-01-02")+".", "The answer is put into a sentence.")
	p.addSlip(day.AddDate(0, 1, 0).Format("2006-01-02"), "The month is counted from the start of the year.")
	return p
}

func clockTime(d *dice) problem {
	hour, minute := d.between(1, 11), d.between(0, 59)
	p := exactly(fmt.Sprintf("Write %d:%02d p.m. as a 24-hour time in the form HH:MM. Reply with the time alone.", hour, minute),
		fmt.Sprintf("%02d:%02d", hour+12, minute),
		fmt.Sprintf("In the afternoon 12 is added: %d + 12 = %d.", hour, hour+12))
	p.addSlip(fmt.Sprintf("%02d:%02d", hour, minute), "The hour is written with two digits.")
	p.addSlip(fmt.Sprintf("%d:%02d p.m.", hour+12, minute), "The half of the day is kept.")
	return p
}

func orderNumber(d *dice) problem {
	name, number, year, amount := pick(d, names), d.between(10000, 99999), d.between(2019, 2027), d.between(20, 400)
	p := exactly(fmt.Sprintf("From the message below, extract the order number. Reply with ORD-, the year, a dash and the number, and nothing else.\n\nHello, this is %s. I paid $%d for order no. %d in %d and it has not arrived.", name, amount, number, year),
		fmt.Sprintf("ORD-%d-%d", year, number),
		fmt.Sprintf("The message names order no. %d of the year %d.", number, year))
	p.addSlip(fmt.Sprintf("ORD-%d-%d", year, amount), fmt.Sprintf("The number in the message is %d.", amount))
	p.addSlip(fmt.Sprintf("ORD-%d", number), "The prefix is set before the number.")
	p.addSlip(fmt.Sprintf("%d-%d", year, number), "Year and number are joined by a dash.")
	return p
}

func hexColour(d *dice) problem {
	r, g, b := d.between(0, 255), d.between(0, 255), d.between(0, 255)
	p := exactly(fmt.Sprintf("Write the colour rgb(%d, %d, %d) as a hexadecimal colour of six upper-case digits with a leading #. Reply with the colour alone.", r, g, b),
		fmt.Sprintf("#%02X%02X%02X", r, g, b),
		fmt.Sprintf("%d is %02X, %d is %02X and %d is %02X in hexadecimal.", r, r, g, g, b, b))
	p.addSlip(fmt.Sprintf("#%02X%02X%02X", b, g, r), "The three channels are joined.")
	p.addSlip(fmt.Sprintf("#%02x%02x%02x ", r, g, b)+"(lower case)", "The digits are written out.")
	p.addSlip(fmt.Sprintf("%02X%02X%02X", r, g, b), "The digits are written one after the other.")
	return p
}

// record is the object that a prompt asks for, field by field, in order.
type record []field

type field struct {
	name  string
	value any // string, int, bool or []string
}

// text is the object as JSON with its fields in order.
func (r record) text() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range r {
		if i > 0 {
			b.WriteString(", ")
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			panic(err) // only plain values are in records
		}
		fmt.Fprintf(&b, "%q: %s", f.name, value)
	}
	b.WriteByte('}')
	return b.String()
}

// schema accepts the object and nothing else. Besides the value it names the
// type, so that a failure says which of the two is wrong.
func (r record) schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range r {
		kind := "string"
		switch f.value.(type) {
		case int:
			kind = "integer"
		case bool:
			kind = "boolean"
		case []string:
			kind = "array"
		}
		properties[f.name] = map[string]any{"type": kind, "const": f.value}
		required = append(required, f.name)
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// with is the record with one field changed.
func (r record) with(name string, value any) record {
	changed := append(record(nil), r...)
	for i := range changed {
		if changed[i].name == name {
			changed[i].value = value
		}
	}
	return changed
}

// without is the record less one field.
func (r record) without(name string) record {
	var rest record
	for _, f := range r {
		if f.name != name {
			rest = append(rest, f)
		}
	}
	return rest
}

// object is a problem whose answer is a JSON object.
func object(question string, r record, steps ...string) problem {
	return problem{question: question, kind: kindSchema, tests: r.schema(), answer: r.text(), steps: steps}
}

func orderJSON(d *dice) problem {
	name, ware, count, express := pick(d, names), pick(d, wares), d.between(2, 40), d.between(0, 1) == 1
	how := "by normal post"
	if express {
		how = "by express"
	}
	r := record{{"customer", name}, {"item", ware}, {"quantity", count}, {"express", express}}
	p := object(fmt.Sprintf("Turn the order into a JSON object with the fields customer (string), item (string, as written), quantity (integer) and express (boolean). Reply with the JSON alone.\n\n%s orders %d %s, to be sent %s.", name, count, ware, how), r,
		fmt.Sprintf("The customer is %s.", name), fmt.Sprintf("The quantity is %d and the item is %s.", count, ware))
	p.addSlip(r.with("quantity", strconv.Itoa(count)).text(), "The quantity is copied from the text.")
	p.addSlip(r.with("express", !express).text(), "The way of sending is noted.")
	p.addSlip(r.without("express").text(), "Everything that was ordered is in it.")
	return p
}

func contactJSON(d *dice) problem {
	name, year := pick(d, names), d.between(1950, 2005)
	city := pick(d, []string{"Lisbon", "Osaka", "Nairobi", "Turin", "Oslo", "Quito", "Perth", "Lagos"})
	languages := []string{"Swahili", "Portuguese", "Japanese", "English", "Italian", "Spanish"}
	shuffle(d, languages)
	spoken := languages[:d.between(2, 3)]
	r := record{{"name", name}, {"city", city}, {"born", year}, {"languages", append([]string(nil), spoken...)}}
	p := object(fmt.Sprintf("Turn the note into a JSON object with the fields name (string), city (string), born (integer) and languages (array of strings, in the order of the note). Reply with the JSON alone.\n\n%s, born in %d, lives in %s and speaks %s.", name, year, city, strings.Join(spoken, " and ")), r,
		fmt.Sprintf("The note is about %s, born in %d.", name, year), fmt.Sprintf("There are %d languages.", len(spoken)))
	p.addSlip(r.with("languages", strings.Join(spoken, ", ")).text(), "The languages are listed.")
	p.addSlip(r.with("languages", spoken[:1]).text(), "The first language is taken.")
	p.addSlip(r.with("born", year+1).text(), "The year is read from the note.")
	return p
}

func eventJSON(d *dice) problem {
	what := pick(d, []string{"Choir practice", "Board meeting", "Chess evening", "First-aid course", "Book club"})
	day := time.Date(2027, time.Month(d.between(1, 12)), d.between(1, 28), 0, 0, 0, 0, time.UTC)
	hour, length := d.between(8, 20), 15*d.between(2, 10)
	r := record{{"title", what}, {"date", day.Format("2006-01-02")}, {"start", fmt.Sprintf("%02d:00", hour)}, {"minutes", length}}
	p := object(fmt.Sprintf("Turn the announcement into a JSON object with the fields title (string, as written), date (ISO 8601), start (HH:MM) and minutes (integer). Reply with the JSON alone.\n\n%s on %s at %d o'clock, for %d minutes.", what, day.Format("2 January 2006"), hour, length), r,
		fmt.Sprintf("It is on %s.", day.Format("2006-01-02")), fmt.Sprintf("It starts at %02d:00.", hour))
	p.addSlip(r.with("date", day.Format("2 January 2006")).text(), "The date is copied from the text.")
	p.addSlip(r.with("minutes", fmt.Sprintf("%d minutes", length)).text(), "The length is copied from the text.")
	p.addSlip(r.without("start").text(), "Title, date and length are in it.")
	return p
}

func readingJSON(d *dice) problem {
	sensor := fmt.Sprintf("%s%d", pick(d, []string{"T", "H", "P", "Q"}), d.between(1, 99))
	value, limit := d.between(10, 95), d.between(20, 90)
	r := record{{"sensor", sensor}, {"value", value}, {"limit", limit}, {"alarm", value > limit}}
	p := object(fmt.Sprintf("Turn the reading into a JSON object with the fields sensor (string), value (integer), limit (integer) and alarm (boolean, whether the value is above the limit). Reply with the JSON alone.\n\nSensor %s reads %d; its limit is %d.", sensor, value, limit), r,
		fmt.Sprintf("The value is %d and the limit %d.", value, limit), fmt.Sprintf("Is %d above %d? %v.", value, limit, value > limit))
	p.addSlip(r.with("alarm", value <= limit).text(), "The value is compared with the limit.")
	p.addSlip(r.with("alarm", map[bool]string{true: "yes", false: "no"}[value > limit]).text(), "The comparison is written out.")
	p.addSlip(r.with("value", limit).with("limit", value).text(), "Both numbers are taken from the text.")
	return p
}
