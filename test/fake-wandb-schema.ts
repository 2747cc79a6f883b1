/**
 * The part of W&B's GraphQL schema that the operations of the real SDK (test/fixtures/wandb/operations.json) and of
 * our client use. Written by hand: whatever is not in here is refused as unknown.
 */
import { buildSchema } from 'graphql';

const run = `
  id: ID!
  name: String!
  displayName: String
  description: String
  notes: String
  config: JSONString
  summaryMetrics: JSONString
  systemMetrics: JSONString
  wandbConfig(keys: [String!]): JSONString
  sweepName: String
  commit: String
  readOnly: Boolean
  group: String
  jobType: String
  tags: [String!]
  state: String
  stopped: Boolean
  createdAt: DateTime
  heartbeatAt: DateTime
  projectId: Int64
  user: User
  project: Project
  historyLineCount: Int
  eventsLineCount: Int
  logLineCount: Int
  historyTail: JSONString
  eventsTail: JSONString
  historyKeys: JSON
  history(minStep: Int64, maxStep: Int64, samples: Int): [JSONString!]!
  sampledHistory(specs: [JSONString!]!): [JSON!]!
  events(samples: Int): [JSONString!]!
  parquetHistory(liveKeys: [String!]!): ParquetHistory!
  fileCount: Int
  files(names: [String], after: String, first: Int, pattern: String): FileConnection
`;

export const schema = buildSchema(`
scalar JSONString
scalar JSON
scalar Int64
scalar DateTime

type Query {
  viewer: User
  serverInfo: ServerInfo
  entity(name: String!): Entity
  model(name: String, entityName: String): Project
  project(name: String, entityName: String): Project
  models(entityName: String, after: String, first: Int): ProjectConnection
}

type Mutation {
  upsertBucket(input: UpsertBucketInput!): UpsertBucketPayload
  rewindRun(input: RewindRunInput!): RewindRunPayload
  createRunFiles(input: CreateRunFilesInput!): CreateRunFilesPayload
  markRunFilesUploaded(input: MarkRunFilesUploadedInput!): MarkRunFilesUploadedPayload
  createArtifact(input: CreateArtifactInput!): CreateArtifactPayload
  createArtifactFiles(input: CreateArtifactFilesInput!): CreateArtifactFilesPayload
  createArtifactManifest(input: CreateArtifactManifestInput!): CreateArtifactManifestPayload
  commitArtifact(input: CommitArtifactInput!): CommitArtifactPayload
}

type PageInfo { endCursor: String hasNextPage: Boolean! }

type User {
  id: ID! name: String username: String email: String admin: Boolean flags: JSONString entity: String
  deletedAt: DateTime teams: EntityConnection apiKeys: ApiKeyConnection
}
type ApiKey { id: ID! name: String! description: String }
type ApiKeyConnection { edges: [ApiKeyEdge!]! }
type ApiKeyEdge { node: ApiKey }
type Entity { id: ID! name: String! organization: Organization }
type EntityConnection { edges: [EntityEdge!]! }
type EntityEdge { node: Entity }
type Organization { coreWeaveOrganizationId: String }

type ServerInfo { cliVersionInfo: JSON latestLocalVersionInfo: LocalVersionInfo features: [ServerFeature] }
type LocalVersionInfo { outOfDate: Boolean latestVersionString: String versionOnThisInstanceString: String }
type ServerFeature { name: String! isEnabled: Boolean! }

type Project {
  id: ID! internalId: ID! name: String! entityName: String! entity: Entity! createdAt: DateTime isBenchmark: Boolean
  readOnly: Boolean user: User
  bucket(name: String!, missingOk: Boolean): Run
  run(name: String!): Run
  runCount(filters: JSONString): Int!
  runs(filters: JSONString, after: String, first: Int, order: String): RunConnection
  artifact(name: String!): Artifact
}
type ProjectConnection { pageInfo: PageInfo! edges: [ProjectEdge!]! }
type ProjectEdge { node: Project cursor: String! }
type RunConnection { pageInfo: PageInfo! edges: [RunEdge!]! }
type RunEdge { node: Run! cursor: String! }
type Run {${run}}
type ParquetHistory { parquetUrls: [String!]! liveData: [JSON!]! }
type File {
  id: ID! name: String! url(upload: Boolean): String directUrl: String sizeBytes: Int64 mimetype: String
  updatedAt: DateTime md5: String
}
type FileConnection { pageInfo: PageInfo! edges: [FileEdge!]! }
type FileEdge { node: File cursor: String! }

input UpsertBucketInput {
  id: String name: String modelName: String entityName: String groupName: String description: String
  displayName: String notes: String config: JSONString commit: String host: String debug: Boolean jobProgram: String
  jobRepo: String jobType: String state: String sweep: String tags: [String!] summaryMetrics: JSONString
}
type UpsertBucketPayload { bucket: Run inserted: Boolean }
input RewindRunInput {
  runName: String! entityName: String projectName: String metricName: String! metricValue: Float!
}
type RewindRunPayload { rewoundRun: Run }
input CreateRunFilesInput { entityName: String! projectName: String! runName: String! files: [String!]! }
type CreateRunFilesPayload { runID: ID! uploadHeaders: [String!]! files: [RunFile!]! }
type RunFile { name: String! uploadUrl: String }
input MarkRunFilesUploadedInput { entityName: String! projectName: String! runName: String! files: [String!]! }
type MarkRunFilesUploadedPayload { success: Boolean! }

type Artifact {
  id: ID! state: String digest: String artifactType: ArtifactType artifactSequence: ArtifactSequence
}
type ArtifactType { name: String! }
type ArtifactSequence { id: ID! latestArtifact: Artifact }
input CreateArtifactInput {
  aliases: [ArtifactAliasInput!] artifactCollectionName: String artifactCollectionNames: [String!]
  artifactTypeName: String! clientID: ID clientMutationId: String description: String digest: String!
  digestAlgorithm: String distributedID: String enableDigestDeduplication: Boolean entityName: String! historyStep: Int64
  labels: JSONString metadata: JSONString projectName: String! runName: String sequenceClientID: ID
  storageRegion: String ttlDurationSeconds: Int64
}
input ArtifactAliasInput { alias: String! artifactCollectionName: String! }
type CreateArtifactPayload { artifact: Artifact! }
input CreateArtifactFilesInput {
  artifactFiles: [ArtifactFileInput!]! clientMutationId: String cloudRegionID: ID storageLayout: String
}
input ArtifactFileInput {
  artifactID: ID! artifactManifestID: ID md5: String! mimetype: String name: String! uploadPartsInput: [JSON!]
}
type CreateArtifactFilesPayload { files: ArtifactFileConnection! }
type ArtifactFileConnection { edges: [ArtifactFileEdge!]! }
type ArtifactFileEdge { node: ArtifactFile }
type ArtifactFile {
  id: ID! storagePath: String uploadUrl: String uploadHeaders: [String!] uploadMultipartUrls: MultipartUrls
  artifact: Artifact!
}
type MultipartUrls { uploadID: String uploadUrlParts: [UploadUrlPart!] }
type UploadUrlPart { partNumber: Int64 uploadUrl: String }
enum ArtifactManifestType { FULL PATCH INCREMENTAL }
input CreateArtifactManifestInput {
  artifactID: ID! baseArtifactID: ID name: String! digest: String! entityName: String! projectName: String!
  runName: String type: ArtifactManifestType
}
type CreateArtifactManifestPayload { artifactManifest: ArtifactManifest! }
type ArtifactManifest { id: ID! file: ArtifactFile! }
input CommitArtifactInput { artifactID: ID! }
type CommitArtifactPayload { artifact: Artifact! }
`);
