package recipe

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A Batch says how a batch API is used.
type Batch struct {
	// Time in which the endpoint is to answer, in whole hours.
	Window time.Duration `yaml:"window" default:"24h"`
	// Time between two looks at a batch; it grows to ten times as much.
	Poll time.Duration `yaml:"poll" default:"30s"`
	// Time after which the endpoint has surely done with a submission whose answer was lost, so that it can say whether it has the batch; half as long is waited where its queue is full.
	Settle time.Duration `yaml:"settle" default:"2m"`
	// Most requests of one batch; the vendor's limit where absent.
	Rows int `yaml:"rows" min:"1" max:"1000000"`
	// Largest request file; the vendor's limit where absent.
	Bytes ByteSize `yaml:"bytes"`
	// Folder of the store in which request files are written and files of results are awaited, for runners without a server such as vllm run-batch; instead of base_url.
	Folder string `yaml:"folder"`
}

// batchDiscount is what the vendors' batch APIs take off their prices.
const batchDiscount = 0.5

// Limits of what batch may say.
const (
	minPoll   = 10 * time.Millisecond
	maxPoll   = time.Hour
	maxWindow = 14 * 24 * time.Hour
	minSettle = time.Second
	maxSettle = time.Hour
)

// IsBatch tells whether the teacher is asked through a batch API.
func (t *Teacher) IsBatch() bool { return t.API == APIOpenAIBatch || t.API == APIAnthropicBatch }

// fillBatch gives a batch teacher's price its discount, where the recipe names
// none. What runs on hardware of one's own is discounted by nobody.
func (r *Recipe) fillBatch(i int) {
	t := &r.Teachers[i]
	if _, said := r.places[fmt.Sprintf("teachers[%d].batch", i)]; !said && !t.IsBatch() {
		t.Batch = Batch{} // its defaults mean nothing here
	}
	if t.Price == nil || !t.IsBatch() || t.Batch.Folder != "" {
		return
	}
	if _, said := r.places[fmt.Sprintf("teachers[%d].price.batch_discount", i)]; !said {
		t.Price.BatchDiscount = batchDiscount
	}
}

var folderName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func (c *checker) batch(t *Teacher, path string) {
	at, b := path+".batch", &t.Batch
	if !t.IsBatch() {
		if c.has(at) {
			c.fault(at, "is for batch APIs", "write api: openai-batch or anthropic-batch, or remove it")
		}
		return
	}
	if b.Window < time.Hour || b.Window > maxWindow || b.Window%time.Hour != 0 {
		c.fault(at+".window", fmt.Sprintf("%s: want whole hours, from 1h to %s", b.Window, maxWindow), "24h is what the vendors offer")
	}
	if b.Poll < minPoll || b.Poll > maxPoll {
		c.fault(at+".poll", fmt.Sprintf("%s: want %s to %s", b.Poll, minPoll, maxPoll), "30s suits batches that take hours")
	}
	if b.Settle < minSettle || b.Settle > maxSettle {
		c.fault(at+".settle", fmt.Sprintf("%s: want %s to %s", b.Settle, minSettle, maxSettle), "2m suits every vendor")
	}
	if c.has(at+".bytes") && b.Bytes <= 0 {
		c.fault(at+".bytes", "must be above 0", "such as 100MB, or remove it")
	}
	if b.Folder == "" {
		if c.has(at + ".folder") {
			c.fault(at+".folder", "is empty", "name a folder, or remove the key")
		}
		return
	}
	if t.API != APIOpenAIBatch {
		c.fault(at+".folder", "holds files in OpenAI's form", "write api: openai-batch")
	}
	if !folderName.MatchString(b.Folder) || strings.HasSuffix(b.Folder, ".") {
		c.fault(at+".folder", quote(b.Folder)+" is no folder's name", "use letters, digits, dots, dashes and underscores, at most 63: batches/spool/NAME/ in the store")
	}
	if t.Identity == "" {
		c.fault(path+".identity", "is missing", "a folder does not say who answers: add identity: NAME, one name for one deployment of the model")
	}
	for _, key := range []string{"base_url", "api_key_env", "api_key_file", "api_key_secret"} {
		if c.has(join(path, key)) {
			c.fault(join(path, key), "has no use beside batch.folder", "remove one of the two")
		}
	}
}
