/** What runs and what it says: command payloads, environment maps, output of tools. */
import { hasContent, type Member, members } from './members.ts'
import { type Breach, isPlaceholder, type Rule } from './rule.ts'

const COMMAND_KEYS = 'command raw_command command_payload payload target_payload stdin stdout stderr'.split(
  ' ',
)
/** The same in YAML, where only these names are unmistakable. */
const COMMAND_YAML =
  /^[ \t-]*(?:raw_command|command_payload|stdin|stdout|stderr):[ \t]+(?:["'](?!["'])|[|>])/gm

export const commandPayloads: Rule = {
  name: 'command-payload',
  instead: 'a command reference, such as sandbox_action:fixture-action',
  *find(text): Iterable<Breach> {
    for (const member of members(text, COMMAND_KEYS)) if (hasContent(member)) yield named(member)
    for (const match of text.matchAll(COMMAND_YAML)) yield { start: match.index, what: match[0].trim() }
  },
}

const ENVIRONMENT_KEYS = 'env environment environ environment_variables env_vars'.split(' ')
const MEMBER = /\\*["']?[A-Za-z_]\w*\\*["']?\s*:\s*\\*["']?([^"',}\\]*)/g
const ENVIRONMENT_YAML =
  /^([ \t-]*)(?:env|environment):[ \t]*\n\1[ \t]+(?:- )?[A-Za-z_]\w*(?:=|:[ \t])[ \t]*\S/gm
/** What `env` prints: three assignments under each other. */
const DUMP = /(?:^(?:export )?[A-Z_][A-Z0-9_]*=\S.*\n){3}/gm

export const environmentMaps: Rule = {
  name: 'environment-map',
  instead: 'the names of variables, as a list',
  *find(text): Iterable<Breach> {
    for (const member of members(text, ENVIRONMENT_KEYS)) if (assigns(member)) yield named(member)
    for (const match of text.matchAll(ENVIRONMENT_YAML)) yield { start: match.index, what: 'an environment' }
    for (const match of text.matchAll(DUMP)) yield { start: match.index, what: 'a listing of an environment' }
  },
}

/** A list of names is what a page should show; names with values are what it should not. */
function assigns({ content = '', form }: Member): boolean {
  if (form === 'list') return /\w=[^"'\s]/.test(content)
  if (form === 'object') return [...content.matchAll(MEMBER)].some(([, value]) => !isPlaceholder(value!))
  return form === 'string' && /\w=\S/.test(content)
}

const OUTPUT_KEYS =
  'tool_output tool_outputs tool_result tool_results stdout_preview stderr_preview cookies dom html screenshot storage_state set_cookie'.split(
    ' ',
  )
const DATA_URL = /\bdata:[\w.+/-]+;base64,[A-Za-z0-9+/]{64}/g
const ESCAPE_SEQUENCE = /\u001b[[\]()#PX^_]/g

export const toolOutput: Rule = {
  name: 'tool-output',
  instead: 'its size and its hash',
  *find(text): Iterable<Breach> {
    for (const member of members(text, OUTPUT_KEYS)) if (hasContent(member)) yield named(member)
    for (const match of text.matchAll(DATA_URL)) yield { start: match.index, what: 'a data URL' }
    for (const match of text.matchAll(ESCAPE_SEQUENCE))
      yield { start: match.index, what: 'raw output of a terminal' }
  },
}

function named({ start, key }: Member): Breach {
  return { start, what: `the member ${key} with content` }
}
