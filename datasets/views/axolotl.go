package views

import (
	"github.com/stillhouse-data/stillhouse/datasets"
)

// ViewAxolotl is the view of conversations for Axolotl's type chat_template.
const ViewAxolotl = "axolotl"

func init() {
	register(View{
		Name: ViewAxolotl, Summary: "Axolotl, type chat_template, message_field_training train",
		Reads:     Rows,
		Reasoning: []string{ReasoningSeparate, ReasoningInline, ReasoningDrop},
		Effort:    []string{EffortColumn, EffortSystem, EffortNone},
		Images:    []string{ImagesRefuse, ImagesColumn},
		Shape: func(opt *Options) (Shape, error) {
			prose := "`messages` holds the prompt and, last, the answer; `train` of a message says whether the loss sees it. " + proseOf(opt)
			return Of(prose, func(r *datasets.Row) (Axolotl, error) {
				out, err := axolotl(r, opt)
				return out, of("sample", r.SampleID, err)
			}), nil
		},
	})
}

// An Axolotl is a row of the axolotl view. Axolotl drops nulls, and decodes the
// text of tools and arguments (prompt_strategies/chat_template.py, 0.19).
type Axolotl struct {
	Messages []Message `json:"messages" parquet:"messages,list"`
	Tools    *string   `json:"tools" parquet:"tools,optional"`
	Effort   *string   `json:"effort" parquet:"effort,optional,dict"`
	// AxolotlImages is null for a row without images: Axolotl asks for the
	// first one of a list that is there.
	AxolotlImages []Image `json:"images" parquet:"images,list,optional"`
}

func (a *Axolotl) pictures() []Image { return a.AxolotlImages }

// axolotl shapes one row. Every message says whether it is trained, so that
// message_field_training alone decides. Axolotl ends at arguments that are no
// JSON, so such a row does not fit.
func axolotl(r *datasets.Row, opt *Options) (Axolotl, error) {
	var out Axolotl
	if err := noImages(r.Images, opt); err != nil {
		return out, err
	}
	if err := oneUser(r.Images, r.Messages); err != nil {
		return out, err
	}
	if len(r.Images) > 1 {
		return out, unfit("it has %d images, and Axolotl shows the first alone", len(r.Images))
	}
	if r.Tools != nil && !isJSON(*r.Tools, '[') {
		return out, unfit("the declarations of its tools are no JSON list")
	}
	for i := range r.Messages {
		for _, c := range r.Messages[i].ToolCalls {
			if !isJSON(c.Arguments, '{') {
				return out, unfit("the arguments of a call of %s are no JSON object, which ends Axolotl", c.Name)
			}
		}
	}
	messages, err := prepared(r.Messages, r.Effort, opt)
	if err != nil {
		return out, err
	}
	out.Messages, err = turnsOf(messages, messageOf[string], true)
	out.Tools, out.Effort = r.Tools, effortColumn(r.Effort, opt)
	if len(r.Images) > 0 {
		out.AxolotlImages = imagesOf(r.Images).Images
	}
	return out, err
}
