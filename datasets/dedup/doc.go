// Package dedup finds texts that say the same: exactly ([PromptKey], [Exact]),
// or nearly ([Near], or its stages [PartWriter], [Pairs] and [Verify], which many
// workers can share). Memory does not grow with the number of texts: what
// grows is on disk.
//
// What is compared: across tasks the prompt and nothing else, before anybody
// is asked; inside a task the answers ([AnswerKey], [AnswerComparer]).
//
// Two texts are exact duplicates where they are equal in Unicode NFC with white
// space collapsed. In maths and code case and punctuation count; elsewhere case
// does not, and punctuation away from digits and symbols is dropped. -4 is not
// 4, 3.2 is not 32 and C is not C#.
//
// Two texts are near-duplicates where the Jaccard similarity of their shingles
// is at least the threshold, and they hold the same values: numbers,
// identifiers, formulas, short quotations and negations in the same order, and
// no name that the other has not. A template that is filled in a thousand ways
// is a thousand prompts, however much of it is template.
//
// MinHash only proposes pairs; the similarity of each is computed from the
// whole sets of shingles, and always against a text that is kept. So nothing is
// dropped because it resembles something that was dropped, and the last of a
// cluster never goes. Which texts are kept depends on their order alone, not on
// how they were spread over parts or which worker was first.
package dedup
