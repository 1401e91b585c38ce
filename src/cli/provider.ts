/** `craik provider`: lists providers, shows what a call to one would use, and checks local servers. */
import { Command } from 'commander'
import type { Json } from '../lib/canonical-json.ts'
import { findProvider, loadProviders } from '../providers/load-providers.ts'
import { LOCAL_PRESETS } from '../providers/local/local-presets.ts'
import type { ProviderRecord } from '../providers/provider-record.ts'
import type { CliContext, NounBuilder } from './context.ts'
import { type Column, formatOption, JSON_FIRST_HELP, printable, printRecord, printRows } from './output.ts'
import { failoverCommand } from './provider/failover.ts'
import { disableCommand, enableCommand, localHealthCommand } from './provider/local.ts'

export const providerCommand: NounBuilder = (context) =>
  new Command('provider')
    .addCommand(listCommand(context))
    .addCommand(showCommand(context))
    .addCommand(selectCommand(context))
    .addCommand(localPresetsCommand(context))
    .addCommand(localHealthCommand(context))
    .addCommand(enableCommand(context))
    .addCommand(disableCommand(context))
    .addCommand(failoverCommand(context))

interface FormatOptions {
  readonly format?: string
}

/**
 * Programs are the main readers of these records. So the format is JSON even on a terminal, unless the user chooses
 * another.
 */
function jsonUnlessChosen({ format }: FormatOptions): FormatOptions {
  return { format: format ?? 'json' }
}

function jsonFirst(): ReturnType<typeof formatOption> {
  return formatOption(JSON_FIRST_HELP)
}

const COLUMNS: readonly Column<ProviderRecord>[] = [
  { title: 'id', value: (record) => record.id },
  { title: 'family', value: (record) => record.provider, dropOrder: 3 },
  { title: 'modes', value: (record) => record.modes.join(', '), dropOrder: 1 },
  { title: 'boundary', value: (record) => record.trust_boundary, dropOrder: 2 },
  { title: 'model', value: (record) => record.metadata.default_model ?? '–', canShorten: true },
  { title: 'secret', value: (record) => record.secret_ref_names.join(', ') || '–', canShorten: true },
]

function listCommand(context: CliContext): Command {
  return new Command('list')
    .description('list providers: the built-in ones, and those in config/providers of the Craik home')
    .addOption(jsonFirst())
    .addHelpText('after', '\nExample:\n  craik provider list --format table\n')
    .action(async (options: FormatOptions) => {
      const records = await loadProviders(context.home)
      printRows(context, jsonUnlessChosen(options), records, COLUMNS, (record) => record as Json)
    })
}

function showCommand(context: CliContext): Command {
  return new Command('show')
    .description('show the settings of a provider')
    .argument('<id>', 'id of the provider, such as provider_openai')
    .addOption(jsonFirst())
    .addHelpText('after', '\nExample:\n  craik provider show provider_openai --format table\n')
    .action(async (id: string, options: FormatOptions) => {
      const record = findProvider(await loadProviders(context.home), id)
      printRecord(context, jsonUnlessChosen(options), record as Json, () => describe(record))
    })
}

function describe(record: ProviderRecord): string {
  const { metadata } = record
  return lines(`${record.id} · ${record.name}`, [
    ['family', record.provider],
    ['modes', record.modes.join(', ')],
    ['capabilities', [...new Set(record.capabilities.map(({ name }) => name))].join(', ')],
    ['boundary', record.trust_boundary],
    ['address', metadata.base_url],
    ['model', metadata.default_model],
    ['dialect', metadata.dialect],
    ['billing', metadata.billing],
    ['config', record.config_refs.join(', ') || 'none'],
    ['secrets', record.secret_ref_names.join(', ') || 'none'],
    ['budget', record.budget_ref],
    ['quota', record.quota_ref],
    ['docs', record.docs.join(', ')],
  ])
}

interface SelectOptions extends FormatOptions {
  readonly mode: string
  readonly policyEnvelopeId?: string
  readonly receiptId?: string[]
}

function selectCommand(context: CliContext): Command {
  return new Command('select')
    .description('show what a call to a provider would use; calls nothing')
    .argument('<id>', 'id of the provider, such as provider_openai')
    .option('--mode <mode>', 'mode of the call: chat, completion, embedding, tool or runner', 'chat')
    .option('--policy-envelope-id <id>', 'policy envelope of the call (its signed policy)')
    .option('--receipt-id <id...>', 'receipts to name in the result')
    .addOption(jsonFirst())
    .addHelpText(
      'after',
      '\nExample:\n  craik provider select provider_openai --mode runner --format table\n',
    )
    .action(async (id: string, options: SelectOptions) => {
      const { selectProvider } = await import('../providers/select-provider.ts')
      const { mode, policyEnvelopeId, receiptId } = options
      const selection = selectProvider(await loadProviders(context.home), id, {
        mode,
        ...(policyEnvelopeId !== undefined && { policyEnvelopeId }),
        ...(receiptId !== undefined && { receiptIds: receiptId }),
      })
      printRecord(context, jsonUnlessChosen(options), { ...selection }, () =>
        lines(`${selection.provider_id} · ${selection.mode}`, [
          ['name', selection.name],
          ['family', selection.provider],
          ['boundary', selection.trust_boundary],
          ['config', selection.config_refs.join(', ') || 'none'],
          ['secrets', selection.secret_ref_names.join(', ') || 'none'],
          ['budget', selection.budget_ref],
          ['quota', selection.quota_ref],
          ['envelope', selection.policy_envelope_id ?? 'none'],
          ['receipts', selection.receipt_ids.join(', ') || 'none'],
        ]),
      )
    })
}

function localPresetsCommand(context: CliContext): Command {
  return new Command('local-presets')
    .description('list presets for local model servers (Ollama, …), with their addresses')
    .addOption(jsonFirst())
    .addHelpText('after', '\nExample:\n  craik provider local-presets --format table\n')
    .action(async (options: FormatOptions) => {
      const records = await loadProviders(context.home)
      printRows(
        context,
        jsonUnlessChosen(options),
        LOCAL_PRESETS,
        [
          { title: 'preset', value: (preset) => preset.id },
          { title: 'provider', value: (preset) => preset.provider_id, dropOrder: 2 },
          { title: 'base url', value: (preset) => preset.base_url },
          { title: 'model', value: (preset) => preset.default_model, canShorten: true },
          {
            title: 'configured by',
            value: (preset) => `${preset.base_url_ref}, ${preset.model_ref}`,
            dropOrder: 1,
          },
        ],
        (preset) => ({ ...preset, provider: findProvider(records, preset.provider_id) as Json }),
      )
    })
}

function lines(title: string, facts: readonly (readonly [string, string | undefined])[]): string {
  const shown = facts.map(([label, value]) =>
    value === undefined ? '' : `  ${label.padEnd(12)} ${printable(value)}\n`,
  )
  return `  ${printable(title)}\n${shown.join('')}`
}
