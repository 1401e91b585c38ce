/** What a person can type after `craik`. A noun's file is loaded only when it is named. */
import type { NounBuilder } from './context.ts'

export interface Noun {
  readonly name: string
  readonly summary: string
  /** For the noun's own help; verbs have theirs. */
  readonly example?: string
  readonly load: () => Promise<NounBuilder>
}

export const NOUNS: readonly Noun[] = [
  {
    name: 'shell',
    summary: 'run one of your own commands and leave a signed receipt of it',
    load: async () => (await import('./shell.ts')).shellCommand,
  },
  {
    name: 'receipts',
    summary: 'list, show, verify, prove and export the record of every decision',
    example: 'craik receipts list --since 24h',
    load: async () => (await import('./receipts.ts')).receiptsCommand,
  },
  {
    name: 'policy',
    summary: 'show what a profile allows, test it, check a policy file',
    example: 'craik policy show --profile automation',
    load: async () => (await import('./policy.ts')).policyCommand,
  },
  {
    name: 'grant',
    summary: 'allow one subject one capability, for a while, a number of times',
    example:
      'craik grant create --capability shell.test --operation run --target unit-tests --task-id fix-parser',
    load: async () => (await import('./grant.ts')).grantCommand,
  },
  {
    name: 'secret',
    summary: 'bind a secret’s name to where its value lives, or keep it encrypted here',
    example: 'craik secret bind OPENAI_API_KEY --env OPENAI_API_KEY',
    load: async () => (await import('./secret.ts')).secretCommand,
  },
  {
    name: 'command',
    summary: 'name a command line, so that records refer to it instead of spelling it',
    example: 'craik command register openai-key -- pass show openai',
    load: async () => (await import('./command.ts')).commandCommand,
  },
]
