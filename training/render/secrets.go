package render

// secretKeys are parameters whose values are secrets: a configuration lies in
// the store, and what is in it is in every bundle.
var secretKeys = map[string]string{
	"hub_token":                "secrets go by environment: HF_TOKEN",
	"hf_hub_token":             "secrets go by environment: HF_TOKEN",
	"ms_hub_token":             "secrets go by environment: MODELSCOPE_API_TOKEN",
	"om_hub_token":             "secrets go by environment",
	"comet_api_key":            "secrets go by environment: COMET_API_KEY",
	"swanlab_api_key":          "secrets go by environment: SWANLAB_API_KEY",
	"swanlab_token":            "secrets go by environment: SWANLAB_API_KEY",
	"swanlab_secret":           "secrets go by environment",
	"swanlab_webhook_url":      "it holds a secret, and those go by environment",
	"swanlab_lark_secret":      "secrets go by environment",
	"swanlab_lark_webhook_url": "it holds a secret, and those go by environment",
}
