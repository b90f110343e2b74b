package segtable;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.Unevaluable;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.sources.PrunedFilteredScan;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Tuple2;
import scala.Tuple3;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The data source "segtable": Spark's interfaces, answered by Python.
 *
 * <p>1. Every question goes to {@link Tables}, which the driver's Python implements. It gets and
 * returns DataFrames. An error comes back as a RuntimeException, which is thrown here.
 *
 * <p>2. A scan is planned as the query's columns and filters over the DataFrame that Python returns
 * for them ({@link Planned}), so Spark reads the files natively. Sessions without that strategy read
 * the same rows by {@link Relation#buildScan}.
 *
 * <p>3. Spark's own Janino compiles this file (no lambdas, no generics). Executors never load it.
 */
public class SegtableSource
    implements DataSourceRegister,
        RelationProvider,
        CreatableRelationProvider,
        StreamSourceProvider,
        StreamSinkProvider {

  /**
   * The tables, by Python.
   *
   * <p>Options are JSON, with names in lower case: for Python, each look at a map is a call of Java,
   * and its end an exception, which costs fifty times that.
   */
  public interface Tables {
    Object read(Object session, String options);

    Object save(Object session, String options, String mode, Object rows);

    Object follow(Object session, String options);

    Object receive(Object session, String options);
  }

  /** One version of a table, or what a batch of a stream has of it. */
  public interface Reading {
    Object schema();

    Object size();

    /** Appends rows, or replaces all rows by them; returns a reading of what is there then. */
    Object insert(Object rows, boolean overwrite);

    /**
     * Returns a DataFrame of the columns, whose names are JSON; the filters may leave out files, but
     * no row is sure.
     */
    Object frame(Object session, String columns, Filter[] filters);
  }

  /** A table whose new rows are read as a stream. */
  public interface Feed {
    Object schema();

    Object newest();

    /**
     * Returns the end of the batch after a version, or null for none; "" is the beginning. The
     * version and all before it were processed.
     */
    Object next(String after, String upTo, boolean limited);

    /** Returns the reading of what came after a version, up to another one. */
    Object batch(String after, String upTo);

    /** Ends what the stream has opened. */
    Object close();
  }

  /** A table that a stream is written to. */
  public interface Target {
    Object add(String query, long batch, Object rows);

    /** Ends what the stream has opened. */
    Object close();
  }

  public static volatile Tables tables;

  public String shortName() {
    return "segtable";
  }

  public BaseRelation createRelation(
      SQLContext context, scala.collection.immutable.Map parameters) {
    return relation(context, tables.read(context.sparkSession(), options(parameters)));
  }

  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map parameters,
      org.apache.spark.sql.Dataset rows) {
    Object session = context.sparkSession();
    return relation(context, tables.save(session, options(parameters), mode.name(), rows));
  }

  public Tuple2 sourceSchema(
      SQLContext context,
      Option given,
      String name,
      scala.collection.immutable.Map parameters) {
    Feed feed = (Feed) checked(tables.follow(context.sparkSession(), options(parameters)));
    return new Tuple2(shortName(), schemaOf(feed.schema()));
  }

  public Source createSource(
      SQLContext context,
      String metadataPath,
      Option given,
      String name,
      scala.collection.immutable.Map parameters) {
    Feed feed = (Feed) checked(tables.follow(context.sparkSession(), options(parameters)));
    return new Followed((SparkSession) context.sparkSession(), feed);
  }

  public Sink createSink(
      SQLContext context,
      scala.collection.immutable.Map parameters,
      Seq partitionColumns,
      OutputMode mode) {
    if (!mode.equals(OutputMode.Append())) {
      throw new IllegalArgumentException(
          "InvalidInput: output mode " + mode + ": a stream into a table appends");
    }
    String options = options(parameters);
    Target target = (Target) checked(tables.receive(context.sparkSession(), options));
    return new Received((SparkSession) context.sparkSession(), target);
  }

  static BaseRelation relation(SQLContext context, Object answer) {
    SparkSession session = (SparkSession) context.sparkSession();
    Planned.in(session);
    Reading reading = (Reading) checked(answer);
    return new Relation(context, reading, schemaOf(reading.schema()));
  }

  static Object checked(Object answer) {
    if (answer instanceof RuntimeException) throw (RuntimeException) answer;
    return answer;
  }

  static StructType schemaOf(Object json) {
    return (StructType) DataType.fromJson((String) checked(json));
  }

  static String options(scala.collection.immutable.Map parameters) {
    Map given = CollectionConverters.asJava(parameters);
    return json(given);
  }

  static String json(Object value) {
    try {
      return new ObjectMapper().writeValueAsString(value);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  static Seq seq(List list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  /** A reading as Spark's relation; an insert moves it on to the rows that are there then. */
  public static class Relation extends BaseRelation
      implements PrunedFilteredScan, InsertableRelation {
    private final SQLContext context;
    private final StructType schema;
    private volatile Reading reading;

    Relation(SQLContext context, Reading reading, StructType schema) {
      this.context = context;
      this.reading = reading;
      this.schema = schema;
    }

    public SQLContext sqlContext() {
      return context;
    }

    public StructType schema() {
      return schema;
    }

    public long sizeInBytes() {
      return ((Number) checked(reading.size())).longValue();
    }

    public void insert(org.apache.spark.sql.Dataset rows, boolean overwrite) {
      reading = (Reading) checked(reading.insert(rows, overwrite));
    }

    public boolean needConversion() {
      return false;
    }

    public RDD buildScan(String[] columns, Filter[] filters) {
      return frame(context.sparkSession(), columns, filters).queryExecution().toRdd();
    }

    Dataset frame(Object session, String[] columns, Filter[] filters) {
      return (Dataset) checked(reading.frame(session, json(columns), filters));
    }
  }

  /** Plans a scan of a relation as a query over Python's DataFrame, with equal attributes. */
  public static class Planned extends SparkStrategy {
    private final SparkSession session;

    Planned(SparkSession session) {
      this.session = session;
    }

    /** Adds the strategy to a session, once. */
    static void in(SparkSession session) {
      synchronized (session) {
        List known = new ArrayList();
        Iterator each = session.experimental().extraStrategies().iterator();
        while (each.hasNext()) known.add(each.next());
        for (int i = 0; i < known.size(); i++) if (known.get(i) instanceof Planned) return;
        known.add(new Planned(session));
        session.experimental().extraStrategies_$eq(seq(known));
      }
    }

    public Seq apply(LogicalPlan plan) {
      Option found = PhysicalOperation.unapply(plan);
      if (found.isEmpty()) return seq(Collections.EMPTY_LIST);
      Tuple3 parts = (Tuple3) found.get();
      if (!(parts._3() instanceof LogicalRelation)) return seq(Collections.EMPTY_LIST);
      LogicalRelation scanned = (LogicalRelation) parts._3();
      if (!(scanned.relation() instanceof Relation)) return seq(Collections.EMPTY_LIST);
      // Spark counts the rows of a stream where it scans the relation itself.
      if (scanned.isStreaming()) return seq(Collections.EMPTY_LIST);
      Seq wanted = (Seq) parts._1();
      Seq filters = (Seq) parts._2();
      return seq(Collections.singletonList(planLater(query(scanned, wanted, filters))));
    }

    private LogicalPlan query(LogicalRelation scanned, Seq wanted, Seq filters) {
      List read = new ArrayList();
      List names = new ArrayList();
      for (int i = 0; i < scanned.output().size(); i++) {
        Attribute column = (Attribute) scanned.output().apply(i);
        if (!uses(wanted, column) && !uses(filters, column)) continue;
        read.add(column);
        names.add(column.name());
      }
      Relation relation = (Relation) scanned.relation();
      String[] columns = (String[]) names.toArray(new String[0]);
      LogicalPlan made =
          relation.frame(session, columns, pushed(filters)).queryExecution().analyzed();
      if (isFlat(read) && isOptimized(made)) return ofParts(made, seq(read), wanted, filters);
      made = asked(made, seq(read), wanted, filters);
      made = (LogicalPlan) session.sessionState().optimizer().execute(made);
      // The optimizer may give the output other ids: name it again as the plan around it does.
      return new Project(renamed(made.output(), wanted), made);
    }

    /** Returns the query over each part of a union, as the optimizer would: it need not run. */
    private static LogicalPlan ofParts(LogicalPlan made, Seq read, Seq wanted, Seq filters) {
      if (!(made instanceof Union)) return asked(made, read, wanted, filters);
      List parts = new ArrayList();
      for (int i = 0; i < made.children().size(); i++) {
        LogicalPlan part = (LogicalPlan) made.children().apply(i);
        part = ofParts(part, read, wanted, filters);
        parts.add(i == 0 ? part : new Project(anew(part.output()), part));
      }
      return new Union(seq(parts), false, false);
    }

    private static LogicalPlan asked(LogicalPlan made, Seq read, Seq wanted, Seq filters) {
      made = new Project(renamed(made.output(), read), made);
      for (int i = 0; i < filters.size(); i++) {
        made =
            new org.apache.spark.sql.catalyst.plans.logical.Filter(
                (Expression) filters.apply(i), made);
      }
      return new Project(wanted, made);
    }

    /** Returns whether no column has parts: of those, the optimizer reads only the ones it needs. */
    private static boolean isFlat(List columns) {
      for (int i = 0; i < columns.size(); i++) {
        if (!(((Attribute) columns.get(i)).dataType() instanceof AtomicType)) return false;
      }
      return true;
    }

    /** Returns whether Spark plans scans of files well as they stand, under columns and filters. */
    private static boolean isOptimized(LogicalPlan made) {
      boolean known =
          made instanceof Union
              || made instanceof Project
              || made instanceof org.apache.spark.sql.catalyst.plans.logical.Filter;
      if (!known) return made instanceof LogicalRelation;
      for (int i = 0; i < made.expressions().size(); i++) {
        if (!isExecutable((Expression) made.expressions().apply(i))) return false;
      }
      for (int i = 0; i < made.children().size(); i++) {
        if (!isOptimized((LogicalPlan) made.children().apply(i))) return false;
      }
      return true;
    }

    /** Returns whether the optimizer has nothing to replace in an expression. */
    private static boolean isExecutable(Expression given) {
      if (given instanceof RuntimeReplaceable) return false;
      if (given instanceof Unevaluable && !(given instanceof Attribute)) return false;
      for (int i = 0; i < given.children().size(); i++) {
        if (!isExecutable((Expression) given.children().apply(i))) return false;
      }
      return given.deterministic();
    }

    private static Seq anew(Seq output) {
      List named = new ArrayList();
      Seq none = seq(Collections.EMPTY_LIST);
      for (int i = 0; i < output.size(); i++) {
        Attribute column = (Attribute) output.apply(i);
        named.add(
            new Alias(
                column, column.name(), NamedExpression$.MODULE$.newExprId(), none, Option.empty(), none));
      }
      return seq(named);
    }

    private static boolean uses(Seq expressions, Attribute column) {
      for (int i = 0; i < expressions.size(); i++) {
        if (((Expression) expressions.apply(i)).references().contains(column)) return true;
      }
      return false;
    }

    private static Seq renamed(Seq from, Seq to) {
      List named = new ArrayList();
      for (int i = 0; i < to.size(); i++) {
        NamedExpression as = (NamedExpression) to.apply(i);
        Expression value = (Expression) from.apply(i);
        Seq none = seq(Collections.EMPTY_LIST);
        named.add(new Alias(value, as.name(), as.exprId(), as.qualifier(), Option.empty(), none));
      }
      return seq(named);
    }

    private static Filter[] pushed(Seq filters) {
      List known = new ArrayList();
      for (int i = 0; i < filters.size(); i++) {
        Option found =
            DataSourceStrategy$.MODULE$.translateFilter((Expression) filters.apply(i), true);
        if (found.isDefined()) known.add(found.get());
      }
      return (Filter[]) known.toArray(new Filter[0]);
    }
  }

  /** A version of a table, or the positions in its log store, as the offset of a stream. */
  public static class Version extends Offset {
    private final String n;

    Version(String n) {
      this.n = n;
    }

    public String json() {
      return n;
    }
  }

  /** Asks for a batch of the size that the options of a stream give. */
  public static class Limited implements ReadLimit {}

  /** A feed as Spark's streaming source. */
  public static class Followed implements Source, SupportsTriggerAvailableNow {
    private final SparkSession session;
    private final Feed feed;
    private final StructType schema;
    private String last;

    Followed(SparkSession session, Feed feed) {
      this.session = session;
      this.feed = feed;
      this.schema = schemaOf(feed.schema());
    }

    public StructType schema() {
      return schema;
    }

    /** Where a stream is one batch, Spark asks for all that is there instead. */
    public ReadLimit getDefaultReadLimit() {
      return new Limited();
    }

    /** Spark asks for the end of each batch; with availableNow the last one is known before. */
    public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
        org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
      String newest = last == null ? newest() : last;
      String after = start == null ? "" : start.json();
      String end = (String) checked(feed.next(after, newest, limit instanceof Limited));
      return end == null ? null : new Version(end);
    }

    public org.apache.spark.sql.connector.read.streaming.Offset reportLatestOffset() {
      return new Version(newest());
    }

    public void prepareForTriggerAvailableNow() {
      last = newest();
    }

    public Option getOffset() {
      return Option.apply(new Version(newest()));
    }

    private String newest() {
      return (String) checked(feed.newest());
    }

    public org.apache.spark.sql.Dataset getBatch(Option start, Offset end) {
      String after = start.isDefined() ? ((Offset) start.get()).json() : "";
      Reading reading = (Reading) checked(feed.batch(after, end.json()));
      BaseRelation batch = new Relation(session.sqlContext(), reading, schema);
      return Dataset$.MODULE$.ofRows(session, LogicalRelation$.MODULE$.apply(batch, true));
    }

    public void commit(Offset end) {}

    public void stop() {
      checked(feed.close());
    }

    public String toString() {
      return "segtable";
    }
  }

  /** A target as Spark's streaming sink. */
  public static class Received implements Sink {
    private final SparkSession started; // a micro-batch has a copy, which knows no streams
    private final Target target;
    private final Ends ends = new Ends(this);
    private volatile String query;

    Received(SparkSession started, Target target) {
      this.started = started;
      this.target = target;
      started.streams().addListener(ends);
    }

    public void addBatch(long batch, org.apache.spark.sql.Dataset rows) {
      Dataset given = (Dataset) rows;
      SparkSession session = given.sparkSession();
      query = session.sparkContext().getLocalProperty("sql.streaming.queryId");
      // The plan of a micro-batch may run only as it is; its rows become a plan of their own.
      Dataset plain =
          session.internalCreateDataFrame(given.queryExecution().toRdd(), given.schema(), false);
      try {
        checked(target.add(query, batch, plain));
      } catch (RuntimeException error) {
        StreamingQuery stream = started.streams().get(query);
        if (stream != null && !stream.isActive()) throw stopped();
        throw error;
      }
    }

    /** Closes the target once its query has ended; a query without batches has opened nothing. */
    void ended(String id) {
      if (!id.equals(query)) return;
      started.streams().removeListener(ends);
      checked(target.close());
    }

    /** Spark takes this for what stopping a stream does to its batch, and reports no failure. */
    private static RuntimeException stopped() {
      return new UncheckedIOException(new InterruptedIOException("the stream was stopped"));
    }

    public String toString() {
      return "segtable";
    }
  }

  /** Hears of the end of a query. */
  public static class Ends extends StreamingQueryListener {
    private final Received sink;

    Ends(Received sink) {
      this.sink = sink;
    }

    public void onQueryStarted(QueryStartedEvent event) {}

    public void onQueryProgress(QueryProgressEvent event) {}

    public void onQueryTerminated(QueryTerminatedEvent event) {
      sink.ended(event.id().toString());
    }
  }
}
