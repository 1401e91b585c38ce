/** Finds commands and their results: command payloads, environment maps, output of tools. */
import { bareMembers } from './bare-members.ts'
import { hasContent, type Member, members } from './members.ts'
import { type Breach, isPlaceholder, type Rule, type TextForm } from './rule.ts'

const COMMAND_KEYS = 'command raw_command command_payload payload target_payload stdin stdout stderr'.split(
  ' ',
)

export const commandPayloads: Rule = {
  name: 'command-payload',
  instead: 'a command reference, such as sandbox_action:fixture-action',
  *find(text, form): Iterable<Breach> {
    for (const member of allMembers(text, COMMAND_KEYS, form))
      if (hasContent(member)) yield memberBreach(member)
  },
}

const ENVIRONMENT_KEYS = 'env environment environ environment_variables env_vars'.split(' ')
const MEMBER = /\\*["']?[A-Za-z_]\w*\\*["']?\s*:\s*\\*["']?([^"',}\\]*)/g
/**
 * The output of `env` or the lines of a profile: assignments below each other. One assignment alone is an instruction.
 */
const DUMP =
  /^(?:(?:[ \t]*(?:[$%>] )?(?:export |declare -x |setenv ))?[A-Z_][A-Z0-9_]*[= ](?![<…]|\$\{?[A-Z])\S.*(?:\n|$)){2}/gm
/** The same assignments as options of a container engine. */
const OPTIONS = /(?:\s(?:-e|--env)[ =][A-Za-z_]\w*=(?![<…]|\$\{?[A-Z])\S+){2}/g

export const environmentMaps: Rule = {
  name: 'environment-map',
  instead: 'the names of variables, as a list',
  *find(text, form): Iterable<Breach> {
    for (const member of allMembers(text, ENVIRONMENT_KEYS, form))
      if (assigns(member)) yield memberBreach(member)
    for (const match of text.matchAll(DUMP)) yield { start: match.index, what: 'a listing of an environment' }
    for (const match of text.matchAll(OPTIONS)) yield { start: match.index + 1, what: 'options that set it' }
  },
}

/** A page should show a list of names. Names with values are a breach. */
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
  *find(text, form): Iterable<Breach> {
    for (const member of allMembers(text, OUTPUT_KEYS, form))
      if (hasContent(member)) yield memberBreach(member)
    for (const match of text.matchAll(DATA_URL)) yield { start: match.index, what: 'a data URL' }
    for (const match of text.matchAll(ESCAPE_SEQUENCE))
      yield { start: match.index, what: 'raw output of a terminal' }
  },
}

function* allMembers(text: string, keys: readonly string[], form: TextForm): Iterable<Member> {
  yield* members(text, keys)
  yield* bareMembers(text, keys, form)
}

function memberBreach({ start, key }: Member): Breach {
  return { start, what: `the member ${key} with content` }
}
