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
    name: 'sandbox',
    summary: 'create isolated places; run, copy and look inside; delete them',
    example: 'craik sandbox create --name parser --workspace .',
    load: async () => (await import('./sandbox.ts')).sandboxCommand,
  },
  {
    name: 'snapshot',
    summary: 'what was kept of sandboxes: list, show, export, import, delete',
    example: 'craik snapshot export parser-before parser.tar',
    load: async () => (await import('./snapshot.ts')).snapshotCommand,
  },
  {
    name: 'image',
    summary: 'what containers are made of: build, list, show, prune',
    example: 'craik image build --apt jq,ripgrep',
    load: async () => (await import('./image.ts')).imageCommand,
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
    name: 'provider',
    summary: 'list, show and select model providers; check and enable local ones',
    example: 'craik provider list --format table',
    load: async () => (await import('./provider.ts')).providerCommand,
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
  {
    name: 'budget',
    summary: 'limit what is spent on models, and see what was',
    example: 'craik budget set --provider provider_openai --limit 2usd --per day',
    load: async () => (await import('./budget.ts')).budgetCommand,
  },
  {
    name: 'quota',
    summary: 'limit requests and tokens a minute, and how many run at once',
    example: 'craik quota set --provider provider_openai --requests-per-minute 60',
    load: async () => (await import('./quota.ts')).quotaCommand,
  },
  {
    name: 'demo',
    summary: 'show the whole idea on a repository of yours, without a network',
    example: 'craik demo persistent-agent --repo-path .',
    load: async () => (await import('./demo.ts')).demoCommand,
  },
  {
    name: 'agent',
    summary: 'launch, prompt, inspect and recover persistent agents',
    example: 'craik agent launch --provider-id provider_openai --fixture',
    load: async () => (await import('./agent.ts')).agentCommand,
  },
  {
    name: 'run',
    summary: 'let a model work on a task; list, resume, cancel and recover attempts',
    example: 'craik run execute "run the fixture action"',
    load: async () => (await import('./run.ts')).runCommand,
  },
  {
    name: 'handoff',
    summary: 'what runs did and handed over',
    example: 'craik handoff list',
    load: async () => (await import('./handoff.ts')).handoffCommand,
  },
  {
    name: 'session',
    summary: 'list, show and export agent sessions',
    example: 'craik session list',
    load: async () => (await import('./session.ts')).sessionCommand,
  },
  {
    name: 'supervisor',
    summary: 'the process that holds the sandboxes: see it, stop it, read its log',
    example: 'craik supervisor status',
    load: async () => (await import('./supervisor.ts')).supervisorCommand,
  },
  {
    name: 'doctor',
    summary: 'what this machine offers, and the command that mends what is missing',
    load: async () => (await import('./doctor.ts')).doctorCommand,
  },
  {
    name: 'login',
    summary: 'act under a name; agents need one',
    load: async () => (await import('./login.ts')).loginCommand,
  },
  {
    name: 'logout',
    summary: 'end the login',
    load: async () => (await import('./login.ts')).logoutCommand,
  },
  {
    name: 'whoami',
    summary: 'under whose name commands act',
    load: async () => (await import('./login.ts')).whoamiCommand,
  },
]
