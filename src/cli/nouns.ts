/** What a person can type after `craik`. A noun's file is loaded only when it is named. */
import type { NounBuilder } from './context.ts'

export interface Noun {
  readonly name: string
  readonly summary: string
  /** For the noun's own help; verbs have theirs. */
  readonly example?: string
  /** Under which heading it stands; without one, under that of all. */
  readonly group?: string
  readonly load: () => Promise<NounBuilder>
}

const YOURS = 'The sandbox of your login (also bin/sandbox.sh):'

export const NOUNS: readonly Noun[] = [
  {
    name: 'up',
    summary: 'start it and go in: the agents are there, with the logins you have',
    group: YOURS,
    load: async () => (await import('./login-sandbox/up.ts')).upCommand,
  },
  {
    name: 'down',
    summary: 'save what is to be kept, and stop it',
    group: YOURS,
    load: async () => (await import('./login-sandbox/down.ts')).downCommand,
  },
  {
    name: 'enter',
    summary: 'another terminal in it',
    group: YOURS,
    load: async () => (await import('./login-sandbox/enter.ts')).enterCommand,
  },
  {
    name: 'exec',
    summary: 'one command in it',
    group: YOURS,
    load: async () => (await import('./login-sandbox/exec.ts')).execCommand,
  },
  {
    name: 'run-headless',
    summary: 'one command in it, with its output and exit code kept in your inbox',
    group: YOURS,
    load: async () => (await import('./login-sandbox/run-headless.ts')).runHeadlessCommand,
  },
  {
    name: 'status',
    summary: 'the sandboxes of all logins',
    group: YOURS,
    load: async () => (await import('./login-sandbox/status.ts')).statusCommand,
  },
  {
    name: 'list',
    summary: 'the same as status',
    group: YOURS,
    load: async () => (await import('./login-sandbox/status.ts')).listCommand,
  },
  {
    name: 'inspect',
    summary: 'all about one: what it is made of, its volumes, its profile',
    group: YOURS,
    load: async () => (await import('./login-sandbox/status.ts')).inspectCommand,
  },
  {
    name: 'save',
    summary: 'save its conversations, and what changed in it, to your inbox now',
    group: YOURS,
    load: async () => (await import('./login-sandbox/save.ts')).saveCommand,
  },
  {
    name: 'rebuild',
    summary: 'make it anew; what persists stays',
    group: YOURS,
    load: async () => (await import('./login-sandbox/rebuild.ts')).rebuildCommand,
  },
  {
    name: 'verify-llm-auth',
    summary: 'ask each agent that has a login for an answer',
    group: YOURS,
    load: async () => (await import('./login-sandbox/verify.ts')).verifyCommand,
  },
  {
    name: 'test-repo',
    summary: 'run the tests of a repository in it',
    group: YOURS,
    load: async () => (await import('./login-sandbox/test-repo.ts')).testRepoCommand,
  },
  {
    name: 'prune',
    summary: 'what could be removed, and removing it',
    group: YOURS,
    load: async () => (await import('./login-sandbox/prune.ts')).pruneCommand,
  },
  {
    name: 'nuke',
    summary: 'remove it with everything that it kept',
    group: YOURS,
    load: async () => (await import('./login-sandbox/nuke.ts')).nukeCommand,
  },
  {
    name: 'profile-new',
    summary: 'a profile: whose sandbox, on what, and what is refused',
    group: YOURS,
    load: async () => (await import('./login-sandbox/profiles.ts')).profileNewCommand,
  },
  {
    name: 'profile-list',
    summary: 'which profiles there are',
    group: YOURS,
    load: async () => (await import('./login-sandbox/profiles.ts')).profileListCommand,
  },
  {
    name: 'shell',
    summary: 'run one of your own commands and leave a signed receipt of it',
    load: async () => (await import('./shell.ts')).shellCommand,
  },
  {
    name: 'prompt',
    summary: 'ask an agent in a sandbox to do something, with the login you have',
    load: async () => (await import('./prompt.ts')).promptCommand,
  },
  {
    name: 'acp',
    summary: 'an agent in a sandbox for editors that speak the Agent Client Protocol',
    load: async () => (await import('./acp.ts')).acpCommand,
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
    name: 'volume',
    summary: 'what outlives sandboxes in their homes: list, delete',
    example: 'craik volume list',
    load: async () => (await import('./volume.ts')).volumeCommand,
  },
  {
    name: 'image',
    summary: 'what containers are made of: build, list, show, prune',
    example: 'craik image build --apt jq,ripgrep',
    load: async () => (await import('./image.ts')).imageCommand,
  },
  {
    name: 'harness',
    summary: 'the agents’ command lines: list, info, install, add, update, prune',
    example: 'craik harness list',
    load: async () => (await import('./harness.ts')).harnessCommand,
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
    name: 'egress',
    summary: 'which hosts sandboxes may reach: allow, deny, list, test, watch',
    example: 'craik egress allow --preset npm --sandbox parser',
    load: async () => (await import('./egress.ts')).egressCommand,
  },
  {
    name: 'gateway',
    summary: 'models and the web for programs outside sandboxes, with the logins of this machine',
    load: async () => (await import('./gateway.ts')).gatewayCommand,
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
    name: 'accounts',
    summary: 'the logins of this machine: whose, until when, and what a sandbox gets of them',
    load: async () => (await import('./accounts.ts')).accountsCommand,
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
    name: 'transcripts',
    summary: 'what was said in agent sessions: list, show, search, save as Markdown',
    example: 'craik transcripts export --sandbox parser',
    load: async () => (await import('./transcripts.ts')).transcriptsCommand,
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
