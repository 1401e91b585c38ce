/** A user's own provider, in the form of a file in `config/providers/`. */
export const OWN_RECORD = {
  schema: 'craik.model_provider',
  version: '0.1.0',
  id: 'provider_team_gateway',
  name: 'Team gateway',
  provider: 'chat_completions',
  modes: ['chat'],
  capabilities: [{ name: 'model.chat', mode: 'chat', description: 'reply to a conversation' }],
  trust_boundary: 'self-hosted',
  config_refs: ['TEAM_GATEWAY_MODEL'],
  secret_ref_names: ['TEAM_GATEWAY_KEY'],
  metadata: { base_url: 'https://models.example.com/v1', default_model: 'team-large' },
  docs: ['docs/reference/providers.md'],
  created_at: '2026-11-01T00:00:00Z',
}
